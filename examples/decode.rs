//! decode.c in Rust, the functions declared by hand.
//!   rustc decode.rs -L FOLDER-OF-LIBROTARY -C link-args="-lstdc++ -lm"     the link-args of a static librotary
use std::ffi::{c_char, c_void, CStr};
use std::mem::{size_of, MaybeUninit};
use std::ptr::{addr_of_mut, null, null_mut};

const HEAD_DIM: usize = 128;
const HEADS: usize = 8;
const KV_HEADS: usize = 2;
const PROMPT: usize = 12;
const TOKENS: usize = 16;
const HALF: i32 = 101; // of rotary_c.h: ROTARY_HALF and so on
const YARN: i32 = 205;
const EXACT: i32 = 400;
const F32: i32 = 500;
const CACHE_F16: i32 = 803;

/// As long as what is set: its size says so, and the rest has its default.
#[repr(C)]
struct Rope {
    size: u32, head_dim: i32, rotary_dim: i32, pairing: i32, base: f64,
    scaling: i32, exponent_dim: i32, clockwise: i32, truncate: i32, attention_factor: f64,
    axis: *const u8, index: *const i32, inv_freq: *const f64, multiplier: *const f64,
    factor: f64, trained_length: i64,
}
#[repr(C)]
struct Positions { size: u32, kind: i32, values: *const c_void, first: i64, tokens: i64, batch: i32, axes: i32 }
#[repr(C)]
struct Heads {
    size: u32, dtype: i32, data: *mut c_void, batch: i64, tokens: i64, heads: i64,
    head_dim: i32, first: i32, batch_stride: i64, token_stride: i64, head_stride: i64,
}
#[repr(C)]
struct Cache {
    size: u32, kind: i32, k: *mut c_void, v: *mut c_void, pages: i64, heads: i64, page_size: i32, head_dim: i32,
    page_stride: i64, token_stride: i64, head_stride: i64, slots: *const i64, firsts: *const i64, first: i64,
}
enum Frequencies {}
enum Table {}

#[link(name = "rotary")]
extern "C" {
    fn rotary_error() -> *const c_char;
    fn rotary_rope_init(rope: *mut Rope, size: usize);
    fn rotary_positions_init(positions: *mut Positions, size: usize);
    fn rotary_heads_init(heads: *mut Heads, size: usize);
    fn rotary_cache_init(cache: *mut Cache, size: usize);
    fn rotary_heads_order(heads: *mut Heads, order: *const c_char) -> i32;
    fn rotary_frequencies_make(rope: *const Rope, length: i64, made: *mut *mut Frequencies) -> i32;
    fn rotary_frequencies_free(frequencies: *mut Frequencies);
    fn rotary_table_make(frequencies: *const Frequencies, rows: i64, made: *mut *mut Table) -> i32;
    fn rotary_table_free(table: *mut Table);
    fn rotary_table_assign(
        table: *mut Table, frequencies: *const Frequencies, positions: *const Positions, angles: i32, rounding: i32,
    ) -> i32;
    fn rotary_rotate_append(
        q: *const Heads, q_out: *const Heads, k: *const Heads, v: *const Heads, table: *const Table,
        cache: *const Cache, options: *const c_void,
    ) -> i32;
}

fn check(status: i32) {
    if status != 0 {
        panic!("{}", unsafe { CStr::from_ptr(rotary_error()) }.to_string_lossy());
    }
}

/// A struct as its _init function fills it.
fn filled<T>(init: unsafe extern "C" fn(*mut T, usize)) -> T {
    let mut made = MaybeUninit::<T>::uninit();
    unsafe {
        init(made.as_mut_ptr(), size_of::<T>());
        made.assume_init()
    }
}

/// Tokens [first, first + tokens) of a contiguous [tokens, heads, head_dim], which outlives the view.
fn heads_of(values: *mut f32, first: usize, tokens: usize, heads: usize) -> Heads {
    let mut x = filled(rotary_heads_init);
    x.data = unsafe { values.add(first * heads * HEAD_DIM) }.cast();
    (x.tokens, x.heads, x.head_dim) = (tokens as i64, heads as i64, HEAD_DIM as i32);
    check(unsafe { rotary_heads_order(&mut x, b"bthd\0".as_ptr().cast()) });
    x
}

fn series(heads: usize, period: usize) -> Vec<f32> {
    (0..TOKENS * heads * HEAD_DIM).map(|i| (i % period) as f32 / 64.0).collect()
}

#[derive(PartialEq)]
struct Run { turned: Vec<f32>, k_cache: Vec<u16>, v_cache: Vec<u16> }

fn main() {
    let (mut q, mut k, mut v) = (series(HEADS, 89), series(KV_HEADS, 97), series(KV_HEADS, 31));
    let mut rope: Rope = filled(rotary_rope_init);
    (rope.head_dim, rope.base, rope.pairing) = (HEAD_DIM as i32, 1e6, HALF);
    (rope.scaling, rope.factor, rope.trained_length) = (YARN, 4.0, 32768);
    let (mut frequencies, mut table) = (null_mut(), null_mut());
    check(unsafe { rotary_frequencies_make(&rope, 0, addr_of_mut!(frequencies)) });
    check(unsafe { rotary_table_make(frequencies, TOKENS as i64, addr_of_mut!(table)) });

    // Tokens [first, first + count): q is rotated, k goes rotated and v as it is into the cache of f16.
    let mut step = |run: &mut Run, first: usize, count: usize| {
        let mut positions: Positions = filled(rotary_positions_init);
        (positions.first, positions.tokens) = (first as i64, count as i64);
        check(unsafe { rotary_table_assign(table, frequencies, &positions, EXACT, F32) });
        let mut cache: Cache = filled(rotary_cache_init);
        (cache.kind, cache.pages, cache.page_size) = (CACHE_F16, 1, TOKENS as i32);
        (cache.k, cache.v) = (run.k_cache.as_mut_ptr().cast(), run.v_cache.as_mut_ptr().cast());
        (cache.heads, cache.head_dim, cache.first) = (KV_HEADS as i64, HEAD_DIM as i32, first as i64);
        (cache.token_stride, cache.head_stride) = ((KV_HEADS * HEAD_DIM) as i64, HEAD_DIM as i64);
        let from_q = heads_of(q.as_mut_ptr(), first, count, HEADS);
        let to_q = heads_of(run.turned.as_mut_ptr(), first, count, HEADS);
        let from_k = heads_of(k.as_mut_ptr(), first, count, KV_HEADS);
        let from_v = heads_of(v.as_mut_ptr(), first, count, KV_HEADS);
        check(unsafe { rotary_rotate_append(&from_q, &to_q, &from_k, &from_v, table, &cache, null()) });
    };
    let cache = vec![0u16; TOKENS * KV_HEADS * HEAD_DIM];
    let mut runs = [0, 1].map(|_| Run { turned: series(HEADS, 1), k_cache: cache.clone(), v_cache: cache.clone() });
    step(&mut runs[0], 0, PROMPT);
    for at in PROMPT..TOKENS {
        step(&mut runs[0], at, 1);
    }
    step(&mut runs[1], 0, TOKENS);
    let same = runs[0] == runs[1];
    println!("token by token and all at once: {}", if same { "the same bits" } else { "DIFFERENT" });
    unsafe {
        rotary_table_free(table);
        rotary_frequencies_free(frequencies);
    }
    std::process::exit(!same as i32);
}
