"""rotary.positions, by name and by model."""

import unittest

import numpy as np
import rotary
from support import refused


class Positions(unittest.TestCase):
    def test_values_of_the_library(self):
        places = rotary.positions
        self.assertEqual(places.packed([0, 3, 5]).tolist(), [0, 1, 2, 0, 1])
        self.assertEqual(places.packed(np.array([0, 3, 5], np.int32)).dtype, np.int64)
        rows = np.array([[0, 0, 1, 1], [1, 0, 1, 0]])
        for given in (rows, rows.tolist(), rows.astype(bool), rows.astype(np.uint8), np.asfortranarray(rows)):
            self.assertEqual(places.mask(given).tolist(), [[0, 0, 0, 1], [0, 0, 1, 0]])
        self.assertEqual(places.mask(rows[0]).shape, (4,))
        self.assertEqual(places.image(2, 3).tolist(), [[0, 0, 0, 1, 1, 1], [0, 1, 2, 0, 1, 2]])
        self.assertEqual(places.image(2, 4, merge=2).tolist(), [[0, 0, 1, 1] * 2, [0, 1, 0, 1, 2, 3, 2, 3]])
        tokens, at = places.held_tokens(6, 2, 8)
        self.assertEqual((tokens.tolist(), at.tolist()), ([0, 1, 6, 7, 8, 5], [3, 4, 6, 7, 8, 5]))
        self.assertEqual(places.shard_tokens("zigzag", 0, 2, [0, 8]).tolist(), [0, 1, 6, 7])
        self.assertEqual(places.place_of_tokens("zigzag", 2, [0, 8]).tolist(), [0, 1, 4, 5, 6, 7, 2, 3])

    def test_maps(self):
        """The values of vLLM's dual_chunk_rope.py, as in tools/tests/positions/positions_test.cpp."""
        found = rotary.positions.dual_chunk([[0, 3, 5, 6, 13]], 8, local=2)
        wanted = {"key": [0, 3, 5, 0, 1], "same": [0, 3, 5, 0, 1], "before": [6, 8, 8, 6, 7], "far": [8] * 5}
        wanted |= {"before_critical": [6, 9, 11, 6, 7], "far_critical": [8, 11, 13, 8, 9]}
        self.assertEqual({name: one.tolist() for name, one in found.items()}, {n: [one] for n, one in wanted.items()})
        query, key = rotary.positions.self_extend(np.array([0, 5, 9]), 4, 10)
        self.assertEqual((query.tolist(), key.tolist()), ([8, 9, 10], [0, 1, 2]))

    def test_of_a_model(self):
        model, rows = rotary.positions.model, [[0, 1, 1], [1, 1, 0]]
        for source in ({"model_type": "llama"}, ' {"model_type": "llama"}'):
            for given in (rows, np.array(rows, bool)):
                result = model(source, mask=given)
                self.assertEqual((result["positions"].tolist(), result["deltas"]), ([[0, 0, 1], [0, 1, 0]], None))
        self.assertEqual(model({"model_type": "llama"}, np.arange(4))["positions"].tolist(), [0, 1, 2, 3])
        tower = {"model_type": "qwen2_vl", "vision_config": {"spatial_merge_size": 2}}
        result = model(tower, part="vision_config", image_grids=np.array([[1, 4, 6]]))
        self.assertEqual(result["positions"].tolist(), rotary.positions.image(4, 6, merge=2).tolist())
        refused(self, "MODEL_TYPE", lambda: model({"model_type": "nothing"}, [1, 2]))
        for wrong in (lambda: model({"model_type": "llama"}), lambda: model({"model_type": "llama"}, [1, 2], mask=[1]),
                      lambda: model(tower, part="vision_config", image_grids=[1, 4, 6])):
            refused(self, "SHAPE", wrong)

    def test_refusals(self):
        places = rotary.positions
        for code, function, *given in (
            ("POSITION", places.packed, [1, 2]), ("POSITION", places.mask, []),
            ("POSITION", places.held_tokens, 4, 4, 0),
            ("POSITION", places.shard_tokens, "zigzag", 0, 3, [0, 16]), ("POSITION", places.dual_chunk, [0], 4, 4),
            ("POSITION", places.self_extend, [-1], 4, 8), ("DTYPE", places.self_extend, [0.5], 4, 8),
            ("VALUE", places.shard_tokens, "zig", 0, 2, [0, 16]), ("DTYPE", places.packed, [0.0, 2.0]),
            ("SHAPE", places.mask, np.zeros((1, 2, 3), int)),
        ):  # fmt: skip
            refused(self, code, lambda: function(*given))  # noqa: B023
        refused(self, "POSITION", lambda: places.image(3, 4, merge=2))
        for function, *given in ((places.packed, None), (places.image, "2", 3)):
            with self.assertRaises(TypeError):
                function(*given)

    def test_ropes_of_one_axis_each_take_theirs(self):
        allegro = {"_class_name": "AllegroTransformer3DModel"}
        places = np.stack(np.meshgrid(range(2), range(2), range(3), indexing="ij")).reshape(3, -1)
        for axis, rope in enumerate(rotary.config(allegro)):
            alone = rotary.Rope(head_dim=rope.rotary_dim, pairing="half", inv_freq=rotary.frequencies(rope).inv_freq)
            exact = rotary.Table(alone, places[axis])
            for given in (places, places.tolist()):
                table = rotary.Table(rope, given)
                self.assertEqual((table.cos.tolist(), table.sin.tolist()), (exact.cos.tolist(), exact.sin.tolist()))
            self.assertEqual(rotary.Table(rope, places[:, None]).shape, (1, *exact.shape))
            self.assertEqual(rotary.Table(rope, [1, 2, 3]).shape[0], 3)  # tokens, the same on every axis

    def test_coordinates_of_a_diffusion_model_are_its_pipelines(self):
        wan = {"_class_name": "WanTransformer3DModel"}
        sentence = refused(self, "MODEL_TYPE", lambda: rotary.positions.model(wan))
        self.assertTrue("pipeline" in sentence and "--" not in sentence)  # it names no option of the program
