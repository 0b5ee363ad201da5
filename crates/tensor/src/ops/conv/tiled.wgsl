// A tile of 64 filters x 64 pixels a workgroup, an implicit product: the depth runs over taps, then
// channels, in ascending order, and inputs are fetched where taps point. 256 threads, 4x4 outputs each.
const TILE: u32 = 64u;
const DEPTH: u32 = 16u;
const THREADS: u32 = 256u;
const ROW: u32 = 17u;

// [depth][filter / 4] and [depth][pixel / 4]; a vector of padding a row.
var<workgroup> tile_w: array<vec4<f32>, 272>;
var<workgroup> tile_x: array<vec4<f32>, 272>;

@compute @workgroup_size(256)
fn main(
    @builtin(workgroup_id) group: vec3<u32>,
    @builtin(local_invocation_index) thread: u32,
) {
    let image = group.z / p.groups;
    let g = group.z % p.groups;
    let q0 = group.x * TILE;
    let o0 = group.y * TILE;
    let pixels = p.out_h * p.out_w;
    let ty = thread / 16u;
    let tx = thread % 16u;
    // This thread fetches one pixel's inputs, at every fourth depth.
    let pixel = q0 + thread % TILE;
    let own_depth = thread / TILE;
    let oy = pixel / p.out_w;
    let ox = pixel - oy * p.out_w;
    let base_x = p.start_x + image * p.x_n + g * p.channels * p.x_c;
    let base_w = group_weights(g);
    var c: array<vec4<f32>, 4>;
    for (var i = 0u; i < 4u; i++) {
        c[i] = vec4<f32>();
    }
    for (var ky = 0u; ky < p.taps_h; ky++) {
        let y = source(oy, ky * p.dilation_h, p.stride_h, p.pad_top, p.h);
        for (var kx = 0u; kx < p.taps_w; kx++) {
            let at = source(ox, kx * p.dilation_w, p.stride_w, p.pad_left, p.w);
            let inside = pixel < pixels && y.y * at.y == 1u;
            let start = base_x + y.x * p.x_h + at.x * p.x_w;
            let tap = ky * p.taps_w + kx;
            for (var c0 = 0u; c0 < p.channels; c0 += DEPTH) {
                for (var i = 0u; i < 4u; i++) {
                    let depth = own_depth + 4u * i;
                    var v = 0.0;
                    if inside && c0 + depth < p.channels {
                        v = load_x(start + (c0 + depth) * p.x_c);
                    }
                    let column = thread % TILE;
                    tile_x[depth * ROW + column / 4u][column % 4u] = v;
                }
                for (var i = thread; i < TILE * DEPTH; i += THREADS) {
                    let row = i / DEPTH;
                    let depth = i % DEPTH;
                    var v = 0.0;
                    if o0 + row < p.filters && c0 + depth < p.channels {
                        v = load_weight(base_w + (o0 + row) * p.weight_o + (c0 + depth) * p.weight_c + tap);
                    }
                    tile_w[depth * ROW + row / 4u][row % 4u] = v;
                }
                workgroupBarrier();
                for (var depth = 0u; depth < DEPTH; depth++) {
                    let a = tile_w[depth * ROW + ty];
                    let b = tile_x[depth * ROW + tx];
                    c[0] = fma(vec4<f32>(a.x), b, c[0]);
                    c[1] = fma(vec4<f32>(a.y), b, c[1]);
                    c[2] = fma(vec4<f32>(a.z), b, c[2]);
                    c[3] = fma(vec4<f32>(a.w), b, c[3]);
                }
                workgroupBarrier();
            }
        }
    }
    for (var r = 0u; r < 4u; r++) {
        let row = o0 + ty * 4u + r;
        if row < p.filters {
            for (var i = 0u; i < 4u; i++) {
                let column = q0 + tx * 4u + i;
                if column < pixels {
                    finish(image, g * p.filters + row, column, c[r][i]);
                }
            }
        }
    }
}
