// One output a thread: for few filters a group, as in depthwise convolution. The depth runs over
// taps, then channels, in ascending order.
const GROUP: u32 = 64u;

@compute @workgroup_size(64)
fn main(
    @builtin(workgroup_id) group: vec3<u32>,
    @builtin(local_invocation_index) thread: u32,
) {
    let image = group.z / p.groups;
    let g = group.z % p.groups;
    let row = group.y;
    let pixel = group.x * GROUP + thread;
    if pixel >= p.out_h * p.out_w {
        return;
    }
    let oy = pixel / p.out_w;
    let ox = pixel - oy * p.out_w;
    let base_x = p.start_x + image * p.x_n + g * p.channels * p.x_c;
    let base_w = group_weights(g) + row * p.weight_o;
    var sum = 0.0;
    for (var ky = 0u; ky < p.taps_h; ky++) {
        let y = source(oy, ky * p.dilation_h, p.stride_h, p.pad_top, p.h);
        for (var kx = 0u; kx < p.taps_w; kx++) {
            let at = source(ox, kx * p.dilation_w, p.stride_w, p.pad_left, p.w);
            if y.y * at.y == 1u {
                let start = base_x + y.x * p.x_h + at.x * p.x_w;
                let tap = base_w + ky * p.taps_w + kx;
                for (var c = 0u; c < p.channels; c++) {
                    sum = fma(load_weight(tap + c * p.weight_c), load_x(start + c * p.x_c), sum);
                }
            }
        }
    }
    finish(image, g * p.filters + row, pixel, sum);
}
