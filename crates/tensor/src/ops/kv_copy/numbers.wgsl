// A cache of numbers: a row a workgroup.
alias THROUGH = f32;
override CACHE_BF16: bool = false;

@compute @workgroup_size(64)
fn main(@builtin(workgroup_id) group: vec3<u32>, @builtin(local_invocation_index) thread: u32) {
    let position = position_of(group.x, group.z);
    if position < 0 {
        return;
    }
    let begin = source(group.x, group.y, group.z);
    let to = p.start_cache + place_of(position, group.y, group.z);
    for (var i = thread; i < p.n; i += 64u) {
        let v = value(begin + i);
        if CACHE_BF16 {
            cache[to + i] = CACHE(f32_to_bf16(v));
        } else {
            cache[to + i] = CACHE(THROUGH(v));
        }
    }
}
