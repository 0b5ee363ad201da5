// MANY vectors at a time. A row's sum is taken in one order, whatever MANY is: TPR threads take slices
// of a row in turn, then a tree adds them.
override MANY: u32 = 1u;
override TPR: u32 = 16u;
const GROUP: u32 = 128u;
const MOST: u32 = 8u;

var<workgroup> partial: array<f32, GROUP>;

// Each step is one fused operation, so that no compiler may round differently.
fn four(w: vec4<f32>, at: u32, sum: f32) -> f32 {
    return fma(w.w, load_x(at + 3u), fma(w.z, load_x(at + 2u), fma(w.y, load_x(at + 1u), fma(w.x, load_x(at), sum))));
}

@compute @workgroup_size(128)
fn main(
    @builtin(workgroup_id) group: vec3<u32>,
    @builtin(num_workgroups) groups: vec3<u32>,
    @builtin(local_invocation_index) thread: u32,
) {
    let lane = thread % TPR;
    let row = (group.x + group.y * groups.x) * (GROUP / TPR) + thread / TPR;
    var sums: array<f32, MOST>;
    for (var m = 0u; m < MANY; m++) {
        sums[m] = 0.0;
    }
    if row < p.rows {
        let slices = p.blocks * SLICES;
        for (var at = lane; at < slices; at += TPR) {
            let number = at / SLICES;
            let slice = at % SLICES;
            let weights = decode(p.start_w + (row * p.blocks + number) * BLOCK_HALVES, slice);
            let place = places(slice) + p.start_x + number * BLOCK_ELEMENTS;
            for (var m = 0u; m < MANY; m++) {
                let own = place + m * p.stride_x;
                var sum = four(weights.a, own.x, sums[m]);
                sum = four(weights.b, own.y, sum);
                sum = four(weights.c, own.z, sum);
                sums[m] = four(weights.d, own.w, sum);
            }
        }
    }
    for (var m = 0u; m < MANY; m++) {
        partial[thread] = sums[m];
        for (var half = TPR / 2u; half > 0u; half /= 2u) {
            workgroupBarrier();
            if lane < half {
                partial[thread] += partial[thread + half];
            }
        }
        if lane == 0u && row < p.rows {
            store(p.start_out + m * p.stride_out + row, partial[thread]);
        }
        if MANY > 1u && TPR > 1u {
            workgroupBarrier();
        }
    }
}
