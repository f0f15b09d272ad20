# scripts/release.sh fills in the address and the sum of the source archive.
class Rotary < Formula
  desc "Rotary position embeddings for every published model, exact and tested"
  homepage "ROTARY_URL"
  url "ROTARY_URL/rotary-0.1.0.tar.gz"
  sha256 "ROTARY_SHA256"
  license "Apache-2.0"

  depends_on "cli11" => :build
  depends_on "cmake" => :build
  depends_on "nlohmann-json" => :build

  def install
    system "cmake", "-S", ".", "-B", "build", "-DROTARY_TESTS=OFF", *std_cmake_args
    system "cmake", "--build", "build"
    system "cmake", "--install", "build"
  end

  test do
    assert_match "rotary #{version}", shell_output("#{bin}/rotary --version")
    assert_match "All checks passed.", shell_output("#{bin}/rotary demo")
  end
end
