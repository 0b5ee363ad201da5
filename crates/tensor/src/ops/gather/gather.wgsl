// out[.., i, ..] = x[.., ids[.., i, ..], ..] along one axis, bit for bit, an element a thread.
alias X = u32;
const GROUP: u32 = 128u;

struct Params {
    width: u32,
    rows: u32,
    n: u32,
    codes: u32,
    unit_rows: u32,
    // Of the axis that is gathered along: positions, and the distance between them in x.
    extent: u32,
    axis_stride: u32,
    // What an id outside gives.
    missing: u32,
    x: Place,
    ids: Place,
    out: Place,
}
var<immediate> p: Params;

@group(0) @binding(0) var<storage, read> x: array<X>;
@group(0) @binding(1) var<storage, read> ids: array<u32>;
@group(0) @binding(2) var<storage, read_write> out: array<X>;

@compute @workgroup_size(128)
fn main(
    @builtin(workgroup_id) group: vec3<u32>,
    @builtin(num_workgroups) groups: vec3<u32>,
    @builtin(local_invocation_index) thread: u32,
) {
    let row = group.x + group.y * groups.x;
    if row >= p.rows {
        return;
    }
    let begin = row_start(p.x, row, p.width);
    let of_ids = row_start(p.ids, row, p.width);
    let to = row_start(p.out, row, p.width);
    for (var i = thread; i < p.n; i += GROUP) {
        let id = ids[of_ids + i * p.ids.inner];
        var bits = X(p.missing);
        if id < p.extent {
            bits = x[begin + i * p.x.inner + id * p.axis_stride];
        }
        out[to + i * p.out.inner] = bits;
    }
}
