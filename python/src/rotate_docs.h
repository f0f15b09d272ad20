// The docstrings of rotate and its family.
#pragma once

namespace rotary::python::docs {

#define ROTARY_PY_COMMON                                                                                        \
  "    table: a rotary.Table of as many tokens; its batch is 1 or that of the tensor.\n"                        \
  "    layout: the order of the dimensions, b batch, t tokens, h heads, d head_dim last: \"bthd\", \"bhtd\",\n" \
  "        \"tbhd\", \"thd\", \"htd\", \"td\", \"hd\", ... No default.\n"
#define ROTARY_PY_OUT "    out: where the result goes. None: a new array of the same kind.\n"
#define ROTARY_PY_FIRST                                                                                     \
  "    first: the element of each head where the rotated block begins (ropes[0].first of rotary.config).\n" \
  "    direction: \"forward\", or \"backward\" for the gradient, the transposed map.\n"
#define ROTARY_PY_STORES \
  "    stores: a matter of speed: \"automatic\", \"cached\" (the result is read at once) or \"streaming\".\n"
#define ROTARY_PY_RAISES                                                                                     \
  "\nRaises:\n    rotary.Error: SHAPE, DTYPE, ALIAS, DEVICE, VALUE, TORCH (a gradient would be recorded).\n" \
  "    TypeError: what is no array, or no rotary.Table."

inline constexpr const char* rotate =
    "rotate($module, /, x, table, *, layout, out=None, first=0, direction=\"forward\", stores=\"automatic\")\n--\n\n"
    "Rotate heads by a table: (a, b) -> (a cos - b sin, b cos + a sin).\n\n"
    "The first table.rotary_dim elements of each head turn, in float32 without fused multiply-add; the others keep\n"
    "their bits. float16 and bfloat16 are rounded once, to nearest even.\n\n"
    "Args:\n"
    "    x: float32, float16 or bfloat16, of any strides but of the last dimension; as layout says.\n" ROTARY_PY_COMMON
        ROTARY_PY_OUT ROTARY_PY_FIRST ROTARY_PY_STORES
    "\nReturns:\n    out, or a new array of the kind, element type and shape of x.\n" ROTARY_PY_RAISES;

inline constexpr const char* rotate_in_place =
    "rotate_($module, /, x, table, *, layout, first=0, direction=\"forward\")\n--\n\n"
    "Rotate heads in place.\n\n"
    "Args:\n    x: as of rotate(), writable.\n" ROTARY_PY_COMMON ROTARY_PY_FIRST
    "\nReturns:\n    x.\n" ROTARY_PY_RAISES;

inline constexpr const char* rotate_backward =
    "rotate_backward($module, /, grad, table, *, layout, out=None, first=0, stores=\"automatic\")\n--\n\n"
    "The gradient of rotate(x, table) with respect to x: the transposed map.\n\n"
    "It undoes rotate() only if the table's attention factor is 1.\n\n"
    "Args:\n    grad: the gradient of the result, as x of rotate().\n" ROTARY_PY_COMMON ROTARY_PY_OUT
    "    first: as of rotate().\n" ROTARY_PY_STORES
    "\nReturns:\n    out, or a new array of the kind, element type and shape of grad.\n" ROTARY_PY_RAISES;

inline constexpr const char* rotate_qk =
    "rotate_qk($module, /, q, k, table, *, layout, out=None, first=0, direction=\"forward\", stores=\"automatic\")\n"
    "--\n\n"
    "Rotate queries and keys in one call.\n\n"
    "q and k may differ in heads, head_dim, strides and element type.\n\n"
    "    arrays         element types                    result\n"
    "    numpy          float32, float16, ml_dtypes'     numpy, its dimensions in memory as q's\n"
    "                   bfloat16\n"
    "    torch, CPU     float32, float16, bfloat16       torch; no gradient is recorded: one that would be is an\n"
    "                                                    error\n"
    "    JAX, CPU       float32, float16, bfloat16       JAX; not under jit, grad or vmap; never in place\n"
    "    __dlpack__     float32, float16, bfloat16       rotary.Array\n"
    "    a buffer       float32, float16                 rotary.Array\n\n"
    "Args:\n"
    "    q: queries, as x of rotate(): [batch, heads, tokens, head_dim] with layout=\"bhtd\".\n"
    "    k: keys, in the same layout.\n" ROTARY_PY_COMMON
    "    out: (q_out, k_out), where the results go. None: new arrays of the same kind.\n" ROTARY_PY_FIRST
        ROTARY_PY_STORES "\nReturns:\n    (q, k), rotated.\n" ROTARY_PY_RAISES;

inline constexpr const char* rotate_qk_in_place =
    "rotate_qk_($module, /, q, k, table, *, layout, first=0, direction=\"forward\")\n--\n\n"
    "Rotate queries and keys in place, in one call.\n\n"
    "Args:\n    q: queries, writable.\n    k: keys, writable, in the same layout.\n" ROTARY_PY_COMMON ROTARY_PY_FIRST
    "\nReturns:\n    (q, k).\n" ROTARY_PY_RAISES;

inline constexpr const char* rotate_qkv =
    "rotate_qkv($module, /, qkv, table, kv_heads, *, layout, out=None, first=0, direction=\"forward\", "
    "stores=\"automatic\")\n--\n\n"
    "Rotate the q and k of a packed tensor.\n\n"
    "Args:\n"
    "    qkv: its heads are those of q, then kv_heads of k, then kv_heads of v, which is copied.\n"
    "    kv_heads: how many heads k and v have each.\n" ROTARY_PY_COMMON ROTARY_PY_OUT ROTARY_PY_FIRST ROTARY_PY_STORES
    "\nReturns:\n    out, or a new array of the kind, element type and shape of qkv.\n" ROTARY_PY_RAISES;

inline constexpr const char* rotate_qkv_in_place =
    "rotate_qkv_($module, /, qkv, table, kv_heads, *, layout, first=0, direction=\"forward\")\n--\n\n"
    "Rotate the q and k of a packed tensor in place; v keeps its bits.\n\n"
    "Args:\n"
    "    qkv: its heads are those of q, then kv_heads of k, then kv_heads of v; writable.\n"
    "    kv_heads: how many heads k and v have each.\n" ROTARY_PY_COMMON ROTARY_PY_FIRST
    "\nReturns:\n    qkv.\n" ROTARY_PY_RAISES;

#undef ROTARY_PY_COMMON
#undef ROTARY_PY_OUT
#undef ROTARY_PY_FIRST
#undef ROTARY_PY_STORES
#undef ROTARY_PY_RAISES

}  // namespace rotary::python::docs
