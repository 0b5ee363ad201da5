// Prelude: sizes and strides of a convolution, in elements (Rust: `Params`). Channels and filters
// are those of one group.
struct Params {
    channels: u32,
    filters: u32,
    taps_h: u32,
    taps_w: u32,
    h: u32,
    w: u32,
    out_h: u32,
    out_w: u32,
    stride_h: u32,
    stride_w: u32,
    pad_top: u32,
    pad_left: u32,
    dilation_h: u32,
    dilation_w: u32,
    groups: u32,
    x_n: u32,
    x_c: u32,
    x_h: u32,
    x_w: u32,
    weight_o: u32,
    weight_c: u32,
    out_n: u32,
    bias_step: u32,
    start_x: u32,
    start_weights: u32,
    start_bias: u32,
    start_out: u32,
    codes: u32,
    tile_o: u32,
    tile_q: u32,
}
var<immediate> p: Params;

alias T = f32;
alias W = f32;
alias B = f32;
alias OUT = f32;
alias THROUGH = f32;
override X_BF16: bool = false;
override W_BF16: bool = false;
override B_BF16: bool = false;
override OUT_BF16: bool = false;
override HAS_BIAS: bool = false;
override TRANSPOSED: bool = false;
override ACTIVATION: u32 = 0u;

@group(0) @binding(0) var<storage, read> x: array<T>;
@group(0) @binding(1) var<storage, read> weights: array<W>;
@group(0) @binding(2) var<storage, read> bias: array<B>;
@group(0) @binding(3) var<storage, read_write> out: array<OUT>;

fn load_x(at: u32) -> f32 {
    let stored = x[at];
    if X_BF16 {
        return bf16_to_f32(u32(stored));
    }
    return f32(stored);
}

fn load_weight(at: u32) -> f32 {
    let stored = weights[at];
    if W_BF16 {
        return bf16_to_f32(u32(stored));
    }
    return f32(stored);
}

fn load_bias(at: u32) -> f32 {
    let stored = bias[at];
    if B_BF16 {
        return bf16_to_f32(u32(stored));
    }
    return f32(stored);
}

// First weight of a group: filters come first, but in transposed weights channels do.
fn group_weights(g: u32) -> u32 {
    if TRANSPOSED {
        return p.start_weights + g * p.channels * p.weight_c;
    }
    return p.start_weights + g * p.filters * p.weight_o;
}

// Where tap `tap` of output `at` reads along an axis: the position, and 1 if it lies inside.
fn source(at: u32, tap: u32, stride: u32, pad: u32, extent: u32) -> vec2<u32> {
    if TRANSPOSED {
        let start = at + pad;
        if start < tap {
            return vec2<u32>(0u, 0u);
        }
        let scaled = start - tap;
        let position = scaled / stride;
        let inside = scaled - position * stride == 0u && position < extent;
        return vec2<u32>(position, select(0u, 1u, inside));
    }
    let start = at * stride + tap;
    // Below the padding the difference wraps far past any extent.
    let position = start - pad;
    return vec2<u32>(position, select(0u, 1u, start >= pad && position < extent));
}

fn finish(image: u32, filter_at: u32, pixel: u32, sum: f32) {
    var r = sum;
    if HAS_BIAS {
        r += load_bias(p.start_bias + filter_at * p.bias_step);
    }
    r = unary_function(ACTIVATION, r, 0.0, 0.0);
    let at = p.start_out + image * p.out_n + filter_at * p.out_h * p.out_w + pixel;
    if OUT_BF16 {
        out[at] = OUT(f32_to_bf16(r));
    } else {
        out[at] = OUT(THROUGH(r));
    }
}
