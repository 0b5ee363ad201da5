// A place of each row, drawn by a uniform number from what temperature, top-k, top-p and min-p keep. A
// workgroup a row. What is kept are the keys below `limit` and the first `ties` equal to it: top-k finds
// the limit digit by digit, top-p bit by bit, by sums of weights; nothing is sorted.
alias X = f32;
override X_BF16: bool = false;
const GROUP: u32 = 256u;
const LOWEST: f32 = -3.4028234e38;

struct Params {
    width: u32,
    rows: u32,
    n: u32,
    codes: u32,
    unit_rows: u32,
    x: Place,
    settings: Place,
    uniform: Place,
    out: Place,
}
var<immediate> p: Params;

@group(0) @binding(0) var<storage, read> x: array<X>;
@group(0) @binding(1) var<storage, read> settings: array<f32>;
@group(0) @binding(2) var<storage, read> uniforms: array<f32>;
@group(0) @binding(3) var<storage, read_write> out: array<u32>;

var<workgroup> counts: array<atomic<u32>, GROUP>;
var<workgroup> sums: array<f32, GROUP>;
var<workgroup> equal: array<u32, GROUP>;
var<workgroup> limit: u32;
var<workgroup> ties: u32;
var<workgroup> chosen: u32;
var<workgroup> owner: u32;
var<workgroup> left: f32;

fn value(at: u32) -> f32 {
    let stored = x[at];
    if X_BF16 {
        return bf16_to_f32(u32(stored));
    }
    return f32(stored);
}

fn is_nan(v: f32) -> bool {
    return (bitcast<u32>(v) & 0x7fffffffu) > 0x7f800000u;
}

// Share of the most likely one's probability.
fn weight(v: f32, largest: f32, inverse: f32) -> f32 {
    if is_nan(v) || v < LOWEST {
        return 0.0;
    }
    return bounded_exp((v - largest) * inverse);
}

// The sum of what all threads hold, in one order.
fn total(thread: u32, own: f32) -> f32 {
    workgroupBarrier();
    sums[thread] = own;
    for (var half = GROUP / 2u; half > 0u; half /= 2u) {
        workgroupBarrier();
        if thread < half {
            sums[thread] += sums[thread + half];
        }
    }
    workgroupBarrier();
    return sums[0];
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
    let own_settings = row_start(p.settings, row, p.width);
    let temperature = settings[own_settings];
    let top_k = settings[own_settings + p.settings.inner];
    let top_p = settings[own_settings + 2u * p.settings.inner];
    let min_p = settings[own_settings + 3u * p.settings.inner];
    let at = uniforms[row_start(p.uniform, row, p.width)];

    // The least key is the most likely one's.
    var least = 0xffffffffu;
    var first = 0xffffffffu;
    for (var i = thread; i < p.n; i += GROUP) {
        let own = key_of(value(begin + i * p.x.inner), false);
        if own < least {
            least = own;
            first = i;
        }
    }
    equal[thread] = least;
    atomicStore(&counts[thread], first);
    for (var half = GROUP / 2u; half > 0u; half /= 2u) {
        workgroupBarrier();
        if thread < half {
            let a = equal[thread];
            let b = equal[thread + half];
            let i = atomicLoad(&counts[thread]);
            let j = atomicLoad(&counts[thread + half]);
            if b < a || (b == a && j < i) {
                equal[thread] = b;
                atomicStore(&counts[thread], j);
            }
        }
    }
    workgroupBarrier();
    least = equal[0];
    let greedy = atomicLoad(&counts[0]);
    // Keys of +infinity, -infinity and NaN.
    let endless = least == 0x007fffffu;
    let nothing = least >= 0xff800000u;
    if nothing || endless || !(temperature > 0.0) {
        if thread == 0u {
            out[to] = select(greedy, 0xffffffffu, nothing);
        }
        return;
    }
    let largest = value(begin + greedy * p.x.inner);
    let inverse = 1.0 / temperature;
    workgroupBarrier();

    if thread == 0u {
        limit = 0xffffffffu;
        ties = p.n;
    }
    let few = top_k >= 1.0 && top_k < f32(p.n);
    if few {
        if thread == 0u {
            limit = 0u;
            ties = u32(top_k);
        }
        for (var digit = 0u; digit < 4u; digit++) {
            let shift = 24u - 8u * digit;
            let known = select(0xffffffffu << ((shift + 8u) & 31u), 0u, digit == 0u);
            atomicStore(&counts[thread], 0u);
            workgroupBarrier();
            let prefix = limit;
            for (var i = thread; i < p.n; i += GROUP) {
                let own = key_of(value(begin + i * p.x.inner), false);
                if (own & known) == prefix {
                    atomicAdd(&counts[(own >> shift) & 255u], 1u);
                }
            }
            workgroupBarrier();
            if thread == 0u {
                var d = 0u;
                var rest = ties;
                while d < 255u {
                    let count = atomicLoad(&counts[d]);
                    if count >= rest {
                        break;
                    }
                    rest -= count;
                    d++;
                }
                ties = rest;
                limit = prefix | (d << shift);
            }
            workgroupBarrier();
        }
    }
    workgroupBarrier();
    if top_p < 1.0 {
        // Equal ones have equal weights, so the ties at the limit are counted, not found.
        let last = limit;
        let last_ties = ties;
        var at_last = 0.0;
        if few {
            // The number whose key the limit is.
            let rising = ~last;
            let bits = select(~rising, rising & 0x7fffffffu, rising >= 0x80000000u);
            at_last = weight(bitcast<f32>(bits), largest, inverse) * f32(last_ties);
        }
        var own = 0.0;
        for (var i = thread; i < p.n; i += GROUP) {
            let v = value(begin + i * p.x.inner);
            let key = key_of(v, false);
            own += select(0.0, weight(v, largest, inverse), key < last || !few);
        }
        let target_sum = top_p * (total(thread, own) + at_last);
        // The largest key below which there is less than the target: found from the highest bit on.
        var found = 0u;
        for (var bit = 0u; bit < 32u; bit++) {
            let trial = found | (0x80000000u >> bit);
            var part = 0.0;
            for (var i = thread; i < p.n; i += GROUP) {
                let v = value(begin + i * p.x.inner);
                let key = key_of(v, false);
                part += select(0.0, weight(v, largest, inverse), key < trial && (key < last || !few));
            }
            let below = total(thread, part) + select(0.0, at_last, trial > last);
            if below < target_sum {
                found = trial;
            }
        }
        var part = 0.0;
        var same = 0u;
        for (var i = thread; i < p.n; i += GROUP) {
            let v = value(begin + i * p.x.inner);
            let key = key_of(v, false);
            part += select(0.0, weight(v, largest, inverse), key < found && (key < last || !few));
            same += select(0u, 1u, key == found);
        }
        let below = total(thread, part);
        let number = total(thread, f32(same));
        if thread == 0u {
            let rising = ~found;
            let bits = select(~rising, rising & 0x7fffffffu, rising >= 0x80000000u);
            let each = weight(bitcast<f32>(bits), largest, inverse);
            var most = number;
            if few && found == last {
                most = f32(last_ties);
            }
            let wanted = ceil((target_sum - below) / max(each, 1.0e-38));
            limit = found;
            ties = u32(clamp(wanted, 1.0, max(most, 1.0)));
        }
    }
    workgroupBarrier();
    let last = limit;
    let taken = ties;

    // In the order of places: each thread a stretch.
    let stretch = (p.n + GROUP - 1u) / GROUP;
    let begins = min(thread * stretch, p.n);
    let ends = min(begins + stretch, p.n);
    var same = 0u;
    for (var i = begins; i < ends; i++) {
        same += select(0u, 1u, key_of(value(begin + i * p.x.inner), false) == last);
    }
    equal[thread] = same;
    workgroupBarrier();
    if thread == 0u {
        var before = 0u;
        for (var t = 0u; t < GROUP; t++) {
            let own = equal[t];
            equal[t] = before;
            before += own;
        }
        chosen = greedy;
    }
    workgroupBarrier();
    var rank = equal[thread];
    var sum = 0.0;
    for (var i = begins; i < ends; i++) {
        let v = value(begin + i * p.x.inner);
        let own = key_of(v, false);
        let w = weight(v, largest, inverse);
        let kept = (own < last || (own == last && rank < taken)) && w >= min_p;
        rank += select(0u, 1u, own == last);
        sum += select(0.0, w, kept);
    }
    workgroupBarrier();
    sums[thread] = sum;
    workgroupBarrier();
    if thread == 0u {
        var all = 0.0;
        for (var t = 0u; t < GROUP; t++) {
            all += sums[t];
        }
        // The stretch in which the target lies; the last that has anything, if rounding leaves none.
        var rest = at * all;
        owner = 0u;
        left = 0.0;
        for (var t = 0u; t < GROUP; t++) {
            if sums[t] > 0.0 {
                owner = t;
                left = rest;
                if sums[t] > rest {
                    break;
                }
                rest -= sums[t];
            }
        }
    }
    workgroupBarrier();
    if thread == owner {
        rank = equal[thread];
        sum = 0.0;
        for (var i = begins; i < ends; i++) {
            let v = value(begin + i * p.x.inner);
            let own = key_of(v, false);
            let w = weight(v, largest, inverse);
            let kept = (own < last || (own == last && rank < taken)) && w >= min_p && w > 0.0;
            rank += select(0u, 1u, own == last);
            if kept {
                sum += w;
                chosen = i;
                if sum > left {
                    break;
                }
            }
        }
        out[to] = chosen;
    }
}
