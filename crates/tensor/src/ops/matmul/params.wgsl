// Prelude: sizes, strides in elements, and starts of out[z, m, n] = sum over k of a[z, m, k] * b[z, k, n].
struct Params {
    m: u32,
    n: u32,
    k: u32,
    batch: u32,
    a_batch: u32,
    a_m: u32,
    a_k: u32,
    b_batch: u32,
    b_k: u32,
    b_n: u32,
    out_batch: u32,
    out_m: u32,
    start_a: u32,
    start_b: u32,
    start_out: u32,
    codes: u32,
    tile_m: u32,
    tile_n: u32,
}
var<immediate> p: Params;
