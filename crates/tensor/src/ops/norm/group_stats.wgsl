// Mean and sum of squares about it, of each part of each group of channels.
alias X = f32;
override X_BF16: bool = false;
const GROUP: u32 = 128u;

struct Params {
    groups: u32,
    // Elements of a group, of a channel, of a part; parts of a group.
    elements: u32,
    positions: u32,
    part: u32,
    parts: u32,
    jobs: u32,
    codes: u32,
    start_x: u32,
    x_batch: u32,
    x_group: u32,
    x_channel: u32,
    x_position: u32,
    start_out: u32,
}
var<immediate> p: Params;

@group(0) @binding(0) var<storage, read> x: array<X>;
@group(0) @binding(1) var<storage, read_write> out: array<f32>;

var<workgroup> partial: array<f32, GROUP>;

fn total(thread: u32, v: f32) -> f32 {
    workgroupBarrier();
    partial[thread] = v;
    for (var half = GROUP / 2u; half > 0u; half /= 2u) {
        workgroupBarrier();
        if thread < half {
            partial[thread] += partial[thread + half];
        }
    }
    workgroupBarrier();
    return partial[0];
}

fn value(begin: u32, element: u32) -> f32 {
    let channel = element / p.positions;
    let position = element - channel * p.positions;
    let stored = x[begin + channel * p.x_channel + position * p.x_position];
    if X_BF16 {
        return bf16_to_f32(u32(stored));
    }
    return f32(stored);
}

@compute @workgroup_size(128)
fn main(
    @builtin(workgroup_id) group: vec3<u32>,
    @builtin(num_workgroups) groups: vec3<u32>,
    @builtin(local_invocation_index) thread: u32,
) {
    let job = group.x + group.y * groups.x;
    let here = job < p.jobs;
    let row = job / p.parts;
    let first = (job - row * p.parts) * p.part;
    let last = min(first + p.part, p.elements);
    let batch = row / p.groups;
    let begin = p.start_x + batch * p.x_batch + (row - batch * p.groups) * p.x_group;
    var sum = 0.0;
    if here {
        for (var i = first + thread; i < last; i += GROUP) {
            sum += value(begin, i);
        }
    }
    let mean = total(thread, sum) / f32(last - first);
    var squares = 0.0;
    if here {
        for (var i = first + thread; i < last; i += GROUP) {
            let v = value(begin, i) - mean;
            squares = fma(v, v, squares);
        }
    }
    squares = total(thread, squares);
    if here && thread == 0u {
        out[p.start_out + 2u * job] = mean;
        out[p.start_out + 2u * job + 1u] = squares;
    }
}
