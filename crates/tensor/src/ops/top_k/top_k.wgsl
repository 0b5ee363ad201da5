// Places of the k first of each row, in order. A workgroup a row: the key of the last one taken is
// found digit by digit (counts of integers: any order gives the same), the places of smaller keys and
// of the earliest equal ones are collected, and sorted by key and place.
alias X = f32;
override X_BF16: bool = false;
const GROUP: u32 = 256u;
const MOST: u32 = 1024u;

struct Params {
    width: u32,
    rows: u32,
    n: u32,
    k: u32,
    ascending: u32,
    codes: u32,
    unit_rows: u32,
    x: Place,
    out: Place,
}
var<immediate> p: Params;

@group(0) @binding(0) var<storage, read> x: array<X>;
@group(0) @binding(1) var<storage, read_write> out: array<u32>;

var<workgroup> counts: array<atomic<u32>, GROUP>;
// Of each thread's stretch: keys below the last one's, and equal to it.
var<workgroup> below: array<u32, GROUP>;
var<workgroup> equal: array<u32, GROUP>;
var<workgroup> keys: array<u32, MOST>;
var<workgroup> places: array<u32, MOST>;
// The last one's key as far as it is known, and how many are still to be taken at it.
var<workgroup> last: u32;
var<workgroup> left: u32;

fn key(at: u32) -> u32 {
    let stored = x[at];
    var v = 0.0;
    if X_BF16 {
        v = bf16_to_f32(u32(stored));
    } else {
        v = f32(stored);
    }
    return key_of(v, p.ascending == 1u);
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
    if thread == 0u {
        last = 0u;
        left = p.k;
    }
    for (var digit = 0u; digit < 4u; digit++) {
        let shift = 24u - 8u * digit;
        // The digits known so far; none at first.
        let known = select(0xffffffffu << ((shift + 8u) & 31u), 0u, digit == 0u);
        atomicStore(&counts[thread], 0u);
        workgroupBarrier();
        let prefix = last;
        for (var i = thread; i < p.n; i += GROUP) {
            let own = key(begin + i * p.x.inner);
            if (own & known) == prefix {
                atomicAdd(&counts[(own >> shift) & 255u], 1u);
            }
        }
        workgroupBarrier();
        if thread == 0u {
            var d = 0u;
            var rest = left;
            while d < 255u {
                let count = atomicLoad(&counts[d]);
                if count >= rest {
                    break;
                }
                rest -= count;
                d++;
            }
            left = rest;
            last = prefix | (d << shift);
        }
        workgroupBarrier();
    }
    let limit = last;
    let equals = left;
    let stretch = (p.n + GROUP - 1u) / GROUP;
    let begins = min(thread * stretch, p.n);
    let ends = min(begins + stretch, p.n);
    var less = 0u;
    var same = 0u;
    for (var i = begins; i < ends; i++) {
        let own = key(begin + i * p.x.inner);
        less += select(0u, 1u, own < limit);
        same += select(0u, 1u, own == limit);
    }
    below[thread] = less;
    equal[thread] = same;
    workgroupBarrier();
    if thread == 0u {
        var before = 0u;
        var alike = 0u;
        for (var t = 0u; t < GROUP; t++) {
            let a = below[t];
            let b = equal[t];
            below[t] = before;
            equal[t] = alike;
            before += a;
            alike += b;
        }
    }
    var size = 1u;
    while size < p.k {
        size *= 2u;
    }
    for (var i = thread; i < size; i += GROUP) {
        keys[i] = 0xffffffffu;
        places[i] = 0xffffffffu;
    }
    workgroupBarrier();
    var next = below[thread];
    var alike = equal[thread];
    for (var i = begins; i < ends; i++) {
        let own = key(begin + i * p.x.inner);
        if own < limit {
            keys[next] = own;
            places[next] = i;
            next++;
        } else if own == limit {
            if alike < equals {
                // Behind all smaller ones.
                let at = p.k - equals + alike;
                keys[at] = own;
                places[at] = i;
            }
            alike++;
        }
    }
    // Bitonic sort.
    for (var run = 2u; run <= size; run *= 2u) {
        for (var reach = run / 2u; reach > 0u; reach /= 2u) {
            workgroupBarrier();
            for (var i = thread; i < size; i += GROUP) {
                let j = i ^ reach;
                if j > i {
                    let a = keys[i];
                    let b = keys[j];
                    let c = places[i];
                    let d = places[j];
                    let after = a > b || (a == b && c > d);
                    if after == ((i & run) == 0u) {
                        keys[i] = b;
                        keys[j] = a;
                        places[i] = d;
                        places[j] = c;
                    }
                }
            }
        }
    }
    workgroupBarrier();
    let start = row_start(p.out, row, p.width);
    for (var i = thread; i < p.k; i += GROUP) {
        out[start + i * p.out.inner] = places[i];
    }
}
