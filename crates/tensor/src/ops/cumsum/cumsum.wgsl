// out[i] = x[0] + … + x[i] along rows. A workgroup a row, a tile at a time: sums of doubling reach
// within the tile, then what came before. One order, whatever other rows there are.
alias X = f32;
alias OUT = f32;
alias THROUGH = f32;
override X_BF16: bool = false;
override OUT_BF16: bool = false;
const GROUP: u32 = 256u;

struct Params {
    width: u32,
    rows: u32,
    n: u32,
    codes: u32,
    unit_rows: u32,
    x: Place,
    out: Place,
}
var<immediate> p: Params;

@group(0) @binding(0) var<storage, read> x: array<X>;
@group(0) @binding(1) var<storage, read_write> out: array<OUT>;

var<workgroup> tile: array<f32, GROUP>;

fn value(at: u32) -> f32 {
    let stored = x[at];
    if X_BF16 {
        return bf16_to_f32(u32(stored));
    }
    return f32(stored);
}

@compute @workgroup_size(256)
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
    let to = row_start(p.out, row, p.width);
    var before = 0.0;
    for (var first = 0u; first < p.n; first += GROUP) {
        let i = first + thread;
        var sum = 0.0;
        if i < p.n {
            sum = value(begin + i * p.x.inner);
        }
        tile[thread] = sum;
        for (var reach = 1u; reach < GROUP; reach *= 2u) {
            workgroupBarrier();
            var left = 0.0;
            if thread >= reach {
                left = tile[thread - reach];
            }
            workgroupBarrier();
            sum += left;
            tile[thread] = sum;
        }
        workgroupBarrier();
        let total = tile[GROUP - 1u];
        workgroupBarrier();
        if i < p.n {
            let r = before + sum;
            let at = to + i * p.out.inner;
            if OUT_BF16 { out[at] = OUT(f32_to_bf16(r)); } else { out[at] = OUT(THROUGH(r)); }
        }
        before += total;
    }
}
