"""rotary.makers beside the results of others' code (core/tests/golden/makers.json), as in core/tests/makers_test.cpp"""

import json
import math
import re
import unittest

import numpy as np
import rotary
from rotary import makers
from support import CONFIGS, inv_freq, refused

GOLDEN = json.loads((CONFIGS.parents[3] / "core/tests/golden/makers.json").read_text())


class Makers(unittest.TestCase):
    def test_values_beside_those_of_others_code(self):
        grok = rotary.Rope(head_dim=64, pairing="half", scaling=rotary.scalings.YarnLog(factor=16, trained_length=8192))
        for name, got, relative in (
            ("timm_mixed", makers.mixed_directions(16, [0.0, 0.7, 3.9]), 1e-15),
            ("golden_gate", makers.golden_directions(16, 2, 3, 0.2, 20, still=0.25), 3e-7),  # float32 there
            ("pixel", makers.pixel_frequencies(8, 224), 3e-7),
            ("yarn_log", np.array(rotary.frequencies(grok).inv_freq), 1e-14),
            ("cope", makers.clipped(inv_freq(64, 5e5)), 1e-14),
            ("ltx", makers.geometric_frequencies(7, math.pi / 2, 1e4 * math.pi / 2), 1e-14),
        ):
            with self.subTest(name):
                wanted, largest = np.array(GOLDEN[name]), name in ("timm_mixed", "golden_gate")
                atol = relative * wanted.max() if largest else 0
                np.testing.assert_allclose(got.ravel(), wanted, rtol=0 if largest else relative, atol=atol)
                self.assertEqual(got.dtype, np.float64)
        for name in ("glm_axes", "openpangu_axes", "videorope_axes"):
            given = [8, 12, 12], (24, 20, 20), np.array([5, 9, 2]), [1, 0, 3]
            for sections, digits in zip(given, GOLDEN[name], strict=True):
                self.assertEqual("".join(map(str, getattr(makers, name)(sections))), digits)
        self.assertEqual(makers.ntk_base(1e4, 4, 64), 1e4 * 4 ** (64 / 62))

    def test_ropes_take_the_results(self):
        angles = makers.random_angles(2, seed=7)
        self.assertEqual(angles.tolist(), makers.random_angles(2, 7).tolist())
        self.assertNotEqual(angles.tolist(), makers.random_angles(2, seed=2**64 - 1).tolist())
        for given in (makers.mixed_directions(16, angles), makers.golden_directions(16, 2, 2, 0.1, 9)):
            rope = rotary.Rope(head_dim=16, pairing="half", inv_freq=given)
            self.assertEqual((given.shape, rope.head_rows, rope.summed_axes), ((2, 2, 8), 2, 2))
        clipped = makers.clipped(inv_freq(64), 20, hard=True)
        self.assertEqual(rotary.Rope(head_dim=64, pairing="half", inv_freq=clipped).inv_freq[12:], (0.0,) * 20)

    def test_every_function_of_the_library_is_there(self):
        header = (CONFIGS.parents[3] / "core/include/rotary/makers.h").read_text()
        self.assertLessEqual({*re.findall(r"^ROTARY_API \S+ (\w+)\(", header, re.MULTILINE)}, {*makers.__all__})

    def test_refusals(self):
        for code, words, wrong in (
            ("SHAPE", "multiple of 4 but got 6", lambda: makers.mixed_directions(6, [0])),
            ("VALUE", "from 0 to 2^64 - 1 but got -1", lambda: makers.random_angles(2, -1)),
            ("VALUE", "every frequency must be finite but got nan", lambda: makers.clipped([1, math.nan], 1)),
            ("SHAPE", "[glm_axes] there must be 3 sections but got 2", lambda: makers.glm_axes([8, 8])),
        ):
            self.assertIn(words, refused(self, code, wrong))
        for wrong in (lambda: makers.clipped("12", 1), lambda: makers.ntk_base("x", 2, 64),
                      lambda: makers.clipped([1.0], hard=1)):
            with self.assertRaises(TypeError):
                wrong()
