// decode.c in Go, by cgo. The tensors are in C's memory: a struct that C reads may not point into Go's.
//
//	CGO_CFLAGS="$(pkg-config --cflags rotary)" CGO_LDFLAGS="$(pkg-config --libs rotary)" go run decode.go
package main

/*
#include <stdlib.h>
#include <rotary/rotary_c.h>
*/
import "C"

import (
	"bytes"
	"fmt"
	"os"
	"unsafe"
)

const headDim, heads, kvHeads, prompt, tokens = 128, 8, 2, 12, 16

func check(status C.rotary_status) {
	if status != C.ROTARY_OK {
		panic(C.GoString(C.rotary_error()))
	}
}

// tensor is zeroed memory of C for [tokens, count, headDim], elements of that many bytes.
func tensor(count, bytes int) unsafe.Pointer {
	return C.calloc(C.size_t(tokens*count*headDim), C.size_t(bytes))
}

func series(count, period int) unsafe.Pointer {
	data := tensor(count, 4)
	for i, values := 0, unsafe.Slice((*float32)(data), tokens*count*headDim); i < len(values); i++ {
		values[i] = float32(i%period) / 64
	}
	return data
}

// headsOf views the tokens [first, first + n) of f32 [tokens, count, headDim].
func headsOf(data unsafe.Pointer, first, n, count int) *C.rotary_heads {
	x := new(C.rotary_heads)
	C.rotary_heads_init(x, C.sizeof_rotary_heads)
	x.data = unsafe.Add(data, first*count*headDim*4)
	x.tokens, x.heads, x.head_dim = C.int64_t(n), C.int64_t(count), headDim
	order := C.CString("bthd")
	defer C.free(unsafe.Pointer(order))
	check(C.rotary_heads_order(x, order))
	return x
}

type run struct{ turned, kCache, vCache unsafe.Pointer }

func main() {
	var rope C.rotary_rope
	C.rotary_rope_init(&rope, C.sizeof_rotary_rope)
	rope.head_dim, rope.base, rope.pairing = headDim, 1000000, C.ROTARY_HALF
	rope.scaling, rope.factor, rope.trained_length = C.ROTARY_YARN, 4, 32768
	var frequencies *C.rotary_frequencies
	var table *C.rotary_table
	check(C.rotary_frequencies_make(&rope, 0, &frequencies))
	defer C.rotary_frequencies_free(frequencies)
	check(C.rotary_table_make(frequencies, tokens, &table))
	defer C.rotary_table_free(table)

	q, k, v := series(heads, 89), series(kvHeads, 97), series(kvHeads, 31)
	// Tokens [first, first + n): q is rotated, k goes rotated and v as it is into the cache of f16.
	step := func(to run, first, n int) {
		var positions C.rotary_positions
		C.rotary_positions_init(&positions, C.sizeof_rotary_positions)
		positions.first, positions.tokens = C.int64_t(first), C.int64_t(n)
		check(C.rotary_table_assign(table, frequencies, &positions, C.ROTARY_EXACT, C.ROTARY_F32))
		var cache C.rotary_cache
		C.rotary_cache_init(&cache, C.sizeof_rotary_cache)
		cache._type, cache.k, cache.v = C.ROTARY_CACHE_F16, to.kCache, to.vCache
		cache.pages, cache.page_size, cache.heads, cache.head_dim = 1, tokens, kvHeads, headDim
		cache.token_stride, cache.head_stride, cache.first = kvHeads*headDim, headDim, C.int64_t(first)
		check(C.rotary_rotate_append(headsOf(q, first, n, heads), headsOf(to.turned, first, n, heads),
			headsOf(k, first, n, kvHeads), headsOf(v, first, n, kvHeads), table, &cache, nil))
	}
	var runs [2]run
	for i := range runs {
		runs[i] = run{tensor(heads, 4), tensor(kvHeads, 2), tensor(kvHeads, 2)}
	}
	step(runs[0], 0, prompt)
	for at := prompt; at < tokens; at++ {
		step(runs[0], at, 1)
	}
	step(runs[1], 0, tokens)

	same := func(a, b unsafe.Pointer, size int) bool {
		n := C.int(tokens * headDim * size)
		return bytes.Equal(C.GoBytes(a, n), C.GoBytes(b, n))
	}
	if !same(runs[0].turned, runs[1].turned, heads*4) || !same(runs[0].kCache, runs[1].kCache, kvHeads*2) ||
		!same(runs[0].vCache, runs[1].vCache, kvHeads*2) {
		fmt.Println("token by token and all at once: DIFFERENT")
		os.Exit(1)
	}
	fmt.Println("token by token and all at once: the same bits")
}
