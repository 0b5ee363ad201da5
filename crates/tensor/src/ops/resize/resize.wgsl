// out[plane, y, x] from the nearest, or between the four nearest, places of a plane. Places are exact
// fractions (a·at + b) / d, so that no rounding moves them.
struct Params {
    channels: u32,
    h: u32,
    w: u32,
    out_h: u32,
    out_w: u32,
    x_n: u32,
    x_c: u32,
    x_h: u32,
    x_w: u32,
    out_n: u32,
    out_c: u32,
    // Vertical, then horizontal.
    a_h: i32,
    b_h: i32,
    d_h: i32,
    a_w: i32,
    b_w: i32,
    d_w: i32,
    start_x: u32,
    start_out: u32,
    count: u32,
    codes: u32,
}
var<immediate> p: Params;

alias T = f32;
alias OUT = f32;
alias THROUGH = f32;
override X_BF16: bool = false;
override OUT_BF16: bool = false;
override LINEAR: bool = false;
const GROUP: u32 = 256u;

@group(0) @binding(0) var<storage, read> x: array<T>;
@group(0) @binding(1) var<storage, read_write> out: array<OUT>;

fn load(at: u32) -> f32 {
    let stored = x[at];
    if X_BF16 {
        return bf16_to_f32(u32(stored));
    }
    return f32(stored);
}

struct Place {
    first: u32,
    second: u32,
    weight: f32,
}

fn place(at: u32, a: i32, b: i32, d: i32, extent: u32) -> Place {
    let n = max(a * i32(at) + b, 0);
    let first = n / d;
    let rest = f32(n - first * d) / f32(d);
    let last = extent - 1u;
    return Place(min(u32(first), last), min(u32(first) + 1u, last), rest);
}

@compute @workgroup_size(256)
fn main(
    @builtin(workgroup_id) group: vec3<u32>,
    @builtin(num_workgroups) groups: vec3<u32>,
    @builtin(local_invocation_index) thread: u32,
) {
    let i = (group.x + group.y * groups.x) * GROUP + thread;
    if i >= p.count {
        return;
    }
    let rows = i / p.out_w;
    let column = i - rows * p.out_w;
    let planes = rows / p.out_h;
    let row = rows - planes * p.out_h;
    let image = planes / p.channels;
    let channel = planes - image * p.channels;
    let base = p.start_x + image * p.x_n + channel * p.x_c;
    let y = place(row, p.a_h, p.b_h, p.d_h, p.h);
    let z = place(column, p.a_w, p.b_w, p.d_w, p.w);
    var r = load(base + y.first * p.x_h + z.first * p.x_w);
    if LINEAR {
        let right = load(base + y.first * p.x_h + z.second * p.x_w);
        let below = load(base + y.second * p.x_h + z.first * p.x_w);
        let both = load(base + y.second * p.x_h + z.second * p.x_w);
        let upper = fma(z.weight, right - r, r);
        let lower = fma(z.weight, both - below, below);
        r = fma(y.weight, lower - upper, upper);
    }
    let at = p.start_out + image * p.out_n + channel * p.out_c + row * p.out_w + column;
    if OUT_BF16 {
        out[at] = OUT(f32_to_bf16(r));
    } else {
        out[at] = OUT(THROUGH(r));
    }
}
