// Prelude of attention: parameters. Rows are the queries of all heads that share a head of keys:
// row r is token r % t of head r / t among them.
struct Params {
    // Query heads for each head of keys; tokens, keys; for the CPU: heads and batches.
    shared_by: u32,
    t: u32,
    s: u32,
    heads: u32,
    q_batch: u32,
    q_head: u32,
    q_token: u32,
    k_batch: u32,
    k_head: u32,
    k_token: u32,
    v_batch: u32,
    v_head: u32,
    v_token: u32,
    out_batch: u32,
    out_head: u32,
    out_token: u32,
    bias_batch: u32,
    bias_head: u32,
    bias_token: u32,
    start_q: u32,
    start_k: u32,
    start_v: u32,
    start_bias: u32,
    start_qp: u32,
    start_kp: u32,
    start_out: u32,
    scale: f32,
    // 0: none.
    softcap: f32,
    // Keys seen back from a query, itself included; 0: all.
    window: u32,
    // Position of the first query, where none are given.
    offset: u32,
    codes: u32,
    // Keys of a part: a workgroup's share.
    part: u32,
}
var<immediate> p: Params;

// Bits of `codes` (Rust: attention/mod.rs).
const CAUSAL: u32 = 0x100u;
const BIAS: u32 = 0x200u;
const Q_POSITIONS: u32 = 0x400u;
const K_POSITIONS: u32 = 0x800u;
const Q_POSITIONS_BATCHED: u32 = 0x1000u;
const K_POSITIONS_BATCHED: u32 = 0x2000u;
const LENGTHS: u32 = 0x4000u;

const LOWEST: f32 = -3.4028234e38;
