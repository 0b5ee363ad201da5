// out = softmax(q·kᵀ·scale + bias, masked)·v without the scores in memory (Milakov and Gimelshein 2018;
// Dao 2022). A workgroup takes BQ rows and walks its keys BK at a time: scores in registers, running
// maximum and sum, outputs rescaled. Numbers pass through workgroup memory DC of a head at a time.
// With PARTS, keys are shared out among workgroups, and join.wgsl joins what they have.
alias Q = f32;
alias KV = f32;
alias B = f32;
alias OUT = f32;
alias THROUGH = f32;
override Q_BF16: bool = false;
override KV_BF16: bool = false;
override B_BF16: bool = false;
override OUT_BF16: bool = false;
// Numbers of a head; rows of a workgroup, a multiple of 16.
override D: u32 = 64u;
override BQ: u32 = 64u;
override PARTS: bool = false;
// Keys and values are Q8_0 blocks (an f16 scale, then 32 signed bytes), as words or as halves.
override KV_Q8: bool = false;
override KV_HALVES: bool = false;
const BK: u32 = 32u;
const DC: u32 = 32u;
const THREADS: u32 = 128u;
// Each thread: RQ rows by 4 columns.
override RQ: u32 = BQ / 16u;
override CHUNKS: u32 = (D + DC - 1u) / DC;
// What any D and BQ need at most: RQ, and RQ by CHUNKS.
const MOST_ROWS: u32 = 4u;
const MOST_SUMS: u32 = 16u;

@group(0) @binding(0) var<storage, read> q: array<Q>;
@group(0) @binding(1) var<storage, read> k: array<KV>;
@group(0) @binding(2) var<storage, read> v: array<KV>;
@group(0) @binding(3) var<storage, read> bias: array<B>;
@group(0) @binding(4) var<storage, read> q_positions: array<i32>;
@group(0) @binding(5) var<storage, read> k_positions: array<i32>;
@group(0) @binding(6) var<storage, read_write> out: array<OUT>;

// [number][row], [number][key] or [key][number], [key][row].
var<workgroup> tile_q: array<f32, DC * BQ>;
var<workgroup> tile_k: array<vec4<f32>, DC * BK / 4u>;
var<workgroup> weights: array<f32, BK * BQ>;
// Maxima and sums of the 8 threads that share a row.
var<workgroup> shared_row: array<f32, 8u * BQ>;

fn q_at(at: u32) -> f32 {
    let stored = q[at];
    if Q_BF16 {
        return bf16_to_f32(u32(stored));
    }
    return f32(stored);
}

// Signed byte `at` of two, times its block's scale.
fn from_block(scale: u32, two: u32, at: u32) -> f32 {
    let q = extractBits(bitcast<i32>(two), (at & 1u) * 8u, 8u);
    return unpack2x16float(scale).x * f32(q);
}

fn k_half(h: u32) -> u32 {
    if KV_HALVES {
        return u32(k[h]);
    }
    return (u32(k[h >> 1u]) >> ((h & 1u) * 16u)) & 0xffffu;
}

// Number `at` behind the start.
fn k_at(at: u32) -> f32 {
    if KV_Q8 {
        let block = p.start_k + at / 32u * 17u;
        return from_block(k_half(block), k_half(block + 1u + at % 32u / 2u), at);
    }
    let stored = k[p.start_k + at];
    if KV_BF16 {
        return bf16_to_f32(u32(stored));
    }
    return f32(stored);
}

fn v_half(h: u32) -> u32 {
    if KV_HALVES {
        return u32(v[h]);
    }
    return (u32(v[h >> 1u]) >> ((h & 1u) * 16u)) & 0xffffu;
}

// Number `at` behind the start.
fn v_at(at: u32) -> f32 {
    if KV_Q8 {
        let block = p.start_v + at / 32u * 17u;
        return from_block(v_half(block), v_half(block + 1u + at % 32u / 2u), at);
    }
    let stored = v[p.start_v + at];
    if KV_BF16 {
        return bf16_to_f32(u32(stored));
    }
    return f32(stored);
}

fn bias_at(at: u32) -> f32 {
    let stored = bias[at];
    if B_BF16 {
        return bf16_to_f32(u32(stored));
    }
    return f32(stored);
}

// Tokens of a sequence so far, those of this call included; 0 where lengths are not given.
fn length_of(batch: u32) -> i32 {
    if (p.codes & LENGTHS) == 0u {
        return 0;
    }
    return k_positions[p.start_kp + batch];
}

fn query_position(batch: u32, token: u32, length: i32) -> i32 {
    if (p.codes & Q_POSITIONS) != 0u {
        let line = select(0u, batch * p.t, (p.codes & Q_POSITIONS_BATCHED) != 0u);
        return q_positions[p.start_qp + line + token];
    }
    let first = select(i32(p.offset), length - i32(p.t), (p.codes & LENGTHS) != 0u);
    return first + i32(token);
}

fn key_position(batch: u32, key: u32, length: i32) -> i32 {
    if (p.codes & LENGTHS) != 0u {
        // The latest position before `length` that falls on this row of the ring.
        let last = length - 1;
        let row = i32(key);
        let ring = i32(p.s);
        return select(row - ring, row + (last - row) / ring * ring, last >= row);
    }
    if (p.codes & K_POSITIONS) == 0u {
        return i32(key);
    }
    let line = select(0u, batch * p.s, (p.codes & K_POSITIONS_BATCHED) != 0u);
    return k_positions[p.start_kp + line + key];
}

fn visible(of_query: i32, of_key: i32) -> bool {
    let back = of_query - of_key;
    let causal = (p.codes & CAUSAL) != 0u;
    let far = p.window != 0u && (back >= i32(p.window) || !causal && -back >= i32(p.window));
    return of_key >= 0 && !far && !(causal && back < 0);
}

@compute @workgroup_size(128)
fn main(@builtin(workgroup_id) group: vec3<u32>, @builtin(local_invocation_index) thread: u32) {
    let rows = p.shared_by * p.t;
    let tiles = (rows + BQ - 1u) / BQ;
    let row0 = (group.x % tiles) * BQ;
    let part = group.x / tiles;
    let kv_head = group.y;
    let batch = group.z;
    let ty = thread / 8u;
    let tx = thread % 8u;

    // Keys of this workgroup; without positions, those that some row sees.
    var first = part * p.part;
    var last = min(first + p.part, p.s);
    let length = length_of(batch);
    if (p.codes & LENGTHS) != 0u {
        last = min(last, u32(max(length, 0)));
    } else if (p.codes & (Q_POSITIONS | K_POSITIONS)) == 0u && p.shared_by * p.t > 0u {
        let last_row = min(row0 + BQ, rows) - 1u;
        var low = row0 % p.t;
        var high = last_row % p.t;
        if row0 / p.t != last_row / p.t {
            low = 0u;
            high = p.t - 1u;
        }
        if (p.codes & CAUSAL) != 0u {
            last = min(last, p.offset + high + 1u);
            if p.window != 0u && p.offset + low + 1u > p.window {
                let from_window = (p.offset + low + 1u - p.window) / BK * BK;
                first = max(first, from_window);
            }
        }
    }

    var o: array<vec4<f32>, MOST_SUMS>;
    for (var i = 0u; i < CHUNKS * RQ; i++) {
        o[i] = vec4<f32>();
    }
    var largest: array<f32, MOST_ROWS>;
    var sums: array<f32, MOST_ROWS>;
    var positions: array<i32, MOST_ROWS>;
    var bias_rows: array<u32, MOST_ROWS>;
    for (var i = 0u; i < RQ; i++) {
        largest[i] = LOWEST;
        sums[i] = 0.0;
        let row = min(row0 + ty * RQ + i, rows - 1u);
        positions[i] = query_position(batch, row % p.t, length);
        bias_rows[i] = p.start_bias + batch * p.bias_batch
            + (kv_head * p.shared_by + row / p.t) * p.bias_head + (row % p.t) * p.bias_token;
    }

    for (var key0 = first; key0 < last; key0 += BK) {
        var scores: array<vec4<f32>, MOST_ROWS>;
        for (var i = 0u; i < RQ; i++) {
            scores[i] = vec4<f32>();
        }
        for (var chunk = 0u; chunk < CHUNKS; chunk++) {
            let d0 = chunk * DC;
            workgroupBarrier();
            for (var i = thread; i < DC * BQ; i += THREADS) {
                // Neighbouring threads read neighbours.
                let d = d0 + i % DC;
                let row = row0 + i / DC;
                var x = 0.0;
                if row < rows && d < D {
                    x = q_at(p.start_q + batch * p.q_batch
                        + (kv_head * p.shared_by + row / p.t) * p.q_head
                        + (row % p.t) * p.q_token + d);
                }
                tile_q[(i % DC) * BQ + i / DC] = x * p.scale;
            }
            for (var i = thread; i < DC * BK / 4u; i += THREADS) {
                let d = d0 + i % DC;
                let key = key0 + i / DC * 4u;
                let at = batch * p.k_batch + kv_head * p.k_head + key * p.k_token + d;
                var x = vec4<f32>();
                if d < D {
                    if key < last { x.x = k_at(at); }
                    if key + 1u < last { x.y = k_at(at + p.k_token); }
                    if key + 2u < last { x.z = k_at(at + 2u * p.k_token); }
                    if key + 3u < last { x.w = k_at(at + 3u * p.k_token); }
                }
                tile_k[(i % DC) * (BK / 4u) + i / DC] = x;
            }
            workgroupBarrier();
            for (var d = 0u; d < DC; d++) {
                let keys = tile_k[d * (BK / 4u) + tx];
                for (var i = 0u; i < RQ; i++) {
                    scores[i] = fma(vec4<f32>(tile_q[d * BQ + ty * RQ + i]), keys, scores[i]);
                }
            }
        }
        for (var i = 0u; i < RQ; i++) {
            var four = scores[i];
            if p.softcap > 0.0 {
                for (var j = 0u; j < 4u; j++) {
                    four[j] = p.softcap * tanh_f32(four[j] / p.softcap);
                }
            }
            for (var j = 0u; j < 4u; j++) {
                let key = key0 + tx * 4u + j;
                if key >= last {
                    four[j] = LOWEST;
                } else {
                    if (p.codes & BIAS) != 0u {
                        four[j] += bias_at(bias_rows[i] + key);
                    }
                    if !visible(positions[i], key_position(batch, key, length)) {
                        four[j] = LOWEST;
                    }
                }
            }
            scores[i] = four;
            shared_row[(ty * RQ + i) * 8u + tx] = max(max(four.x, four.y), max(four.z, four.w));
        }
        workgroupBarrier();
        var rescale: array<f32, MOST_ROWS>;
        for (var i = 0u; i < RQ; i++) {
            let row = ty * RQ + i;
            var now = largest[i];
            for (var j = 0u; j < 8u; j++) {
                now = max(now, shared_row[row * 8u + j]);
            }
            rescale[i] = bounded_exp(largest[i] - now);
            largest[i] = now;
        }
        workgroupBarrier();
        for (var i = 0u; i < RQ; i++) {
            let row = ty * RQ + i;
            var sum = 0.0;
            for (var j = 0u; j < 4u; j++) {
                let score = scores[i][j];
                let weight = select(0.0, bounded_exp(score - largest[i]), score > LOWEST);
                weights[(tx * 4u + j) * BQ + row] = weight;
                sum += weight;
            }
            shared_row[row * 8u + tx] = sum;
        }
        workgroupBarrier();
        for (var i = 0u; i < RQ; i++) {
            let row = ty * RQ + i;
            var sum = 0.0;
            for (var j = 0u; j < 8u; j++) {
                sum += shared_row[row * 8u + j];
            }
            sums[i] = fma(sums[i], rescale[i], sum);
        }
        for (var chunk = 0u; chunk < CHUNKS; chunk++) {
            let d0 = chunk * DC;
            workgroupBarrier();
            for (var i = thread; i < BK * DC / 4u; i += THREADS) {
                let d = d0 + i % (DC / 4u) * 4u;
                let key = key0 + i / (DC / 4u);
                let at = batch * p.v_batch + kv_head * p.v_head + key * p.v_token + d;
                var x = vec4<f32>();
                if key < last {
                    if d < D { x.x = v_at(at); }
                    if d + 1u < D { x.y = v_at(at + 1u); }
                    if d + 2u < D { x.z = v_at(at + 2u); }
                    if d + 3u < D { x.w = v_at(at + 3u); }
                }
                tile_k[i] = x;
            }
            workgroupBarrier();
            for (var i = 0u; i < RQ; i++) {
                o[chunk * RQ + i] *= rescale[i];
            }
            for (var key = 0u; key < BK; key++) {
                let values = tile_k[key * (DC / 4u) + tx];
                for (var i = 0u; i < RQ; i++) {
                    let weight = vec4<f32>(weights[key * BQ + ty * RQ + i]);
                    o[chunk * RQ + i] = fma(weight, values, o[chunk * RQ + i]);
                }
            }
        }
    }

    for (var i = 0u; i < RQ; i++) {
        let row = row0 + ty * RQ + i;
        if row < rows {
            var to = p.start_out + batch * p.out_batch
                + (kv_head * p.shared_by + row / p.t) * p.out_head + (row % p.t) * p.out_token;
            var inverse = select(0.0, 1.0 / sums[i], sums[i] > 0.0);
            if PARTS {
                // [batch, head of keys, row, part, D + 2]: numbers, maximum, sum.
                let parts = (p.s + p.part - 1u) / p.part;
                to = p.start_out
                    + (((batch * p.heads + kv_head) * rows + row) * parts + part) * (D + 2u);
                inverse = 1.0;
                if tx == 0u {
                    out[to + D] = OUT(THROUGH(largest[i]));
                    out[to + D + 1u] = OUT(THROUGH(sums[i]));
                }
            }
            for (var chunk = 0u; chunk < CHUNKS; chunk++) {
                for (var j = 0u; j < 4u; j++) {
                    let d = chunk * DC + tx * 4u + j;
                    if d < D {
                        let r = o[chunk * RQ + i][j] * inverse;
                        if OUT_BF16 {
                            out[to + d] = OUT(f32_to_bf16(r));
                        } else {
                            out[to + d] = OUT(THROUGH(r));
                        }
                    }
                }
            }
        }
    }
}
