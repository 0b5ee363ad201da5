// Prelude: out[m][row] = sum over i of weight[row][i] * x[m][i], weights as whole GGML blocks, whose
// type comes with `decode` and `places` for slices of sixteen weights (Rust: `Params`).
struct Params {
    rows: u32,
    blocks: u32,
    vectors: u32,
    // In 16-bit halves, then in elements.
    start_w: u32,
    start_x: u32,
    start_out: u32,
    stride_x: u32,
    stride_out: u32,
    codes: u32,
    tile_rows: u32,
    tile_vectors: u32,
}
var<immediate> p: Params;

alias T = f32;
alias OUT = f32;
alias THROUGH = f32;
override X_BF16: bool = false;
override OUT_BF16: bool = false;

@group(0) @binding(1) var<storage, read> x: array<T>;
@group(0) @binding(2) var<storage, read_write> out: array<OUT>;

fn load_x(at: u32) -> f32 {
    let stored = x[at];
    if X_BF16 {
        return bf16_to_f32(u32(stored));
    }
    return f32(stored);
}

fn store(at: u32, r: f32) {
    if OUT_BF16 {
        out[at] = OUT(f32_to_bf16(r));
    } else {
        out[at] = OUT(THROUGH(r));
    }
}
