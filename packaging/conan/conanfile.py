"""The core of rotary, of this tree, for Conan 2: conan create packaging/conan"""

import re
from pathlib import Path

from conan import ConanFile
from conan.tools.build import stdcpp_library
from conan.tools.cmake import CMake, CMakeToolchain, cmake_layout
from conan.tools.files import copy, load


class Rotary(ConanFile):
    name = "rotary"
    description = "Rotary position embeddings for every published model, exact and tested"
    license = "Apache-2.0"
    package_type = "library"
    settings = "os", "compiler", "build_type", "arch"
    options = {"shared": [True, False]}
    default_options = {"shared": False}

    def set_version(self):
        text = load(self, Path(self.recipe_folder, "../../core/include/rotary/version.h"))
        self.version = re.search(r'ROTARY_VERSION "(.*)"', text)[1]

    def export_sources(self):
        for pattern in "CMakeLists.txt", "LICENSE", "cmake/*", "core/*", "gpu/*":
            copy(self, pattern, Path(self.recipe_folder, "../.."), self.export_sources_folder)

    def layout(self):
        cmake_layout(self)

    def generate(self):
        toolchain = CMakeToolchain(self)
        toolchain.cache_variables |= {"ROTARY_FILES": False, "ROTARY_TESTS": False}
        toolchain.generate()

    def build(self):
        cmake = CMake(self)
        cmake.configure()
        cmake.build()

    def package(self):
        CMake(self).install()
        copy(self, "LICENSE", self.source_folder, Path(self.package_folder, "licenses"))

    def package_info(self):
        self.cpp_info.set_property("cmake_find_mode", "none")  # rotary's own: rotary::rotary, rotary::c
        self.cpp_info.builddirs = ["lib/cmake/rotary"]
        self.cpp_info.libs = ["rotary"]
        if self.settings.os == "Linux" and not self.options.shared:
            self.cpp_info.system_libs = ["pthread", stdcpp_library(self), "m"]
