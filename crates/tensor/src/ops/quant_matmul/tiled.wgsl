// Many vectors: a tile of 128 rows x 32 vectors a workgroup, two slices of sixteen deep; 256 threads,
// each decodes one slice of one row, then adds up 4x4 outputs. Slices pass in ascending order.
const ROWS: u32 = 128u;
const VECTORS: u32 = 32u;
const DEPTH: u32 = 32u;
const THREADS: u32 = 256u;

// [depth][row / 4] and [depth][vector / 4].
var<workgroup> tile_w: array<vec4<f32>, 1024>;
var<workgroup> tile_x: array<vec4<f32>, 256>;

fn put(depth: u32, row: u32, v: vec4<f32>) {
    tile_w[depth * 32u + row / 4u][row % 4u] = v.x;
    tile_w[(depth + 1u) * 32u + row / 4u][row % 4u] = v.y;
    tile_w[(depth + 2u) * 32u + row / 4u][row % 4u] = v.z;
    tile_w[(depth + 3u) * 32u + row / 4u][row % 4u] = v.w;
}

@compute @workgroup_size(256)
fn main(
    @builtin(workgroup_id) group: vec3<u32>,
    @builtin(local_invocation_index) thread: u32,
) {
    let row0 = group.x * ROWS;
    let vector0 = group.y * VECTORS;
    let own_row = thread % ROWS;
    let own_slice = thread / ROWS;
    let vector = thread % VECTORS;
    // Eight threads share a vector's 32 places, four neighbours each.
    let quad = thread / VECTORS;
    let tx = thread % 32u;
    let ty = thread / 32u;
    var c: array<vec4<f32>, 4>;
    for (var i = 0u; i < 4u; i++) {
        c[i] = vec4<f32>();
    }
    let slices = p.blocks * SLICES;
    for (var at = 0u; at < slices; at += 2u) {
        let number = at / SLICES;
        let slice = at % SLICES;
        var weights = Slice(vec4<f32>(), vec4<f32>(), vec4<f32>(), vec4<f32>());
        if row0 + own_row < p.rows {
            let block = p.start_w + ((row0 + own_row) * p.blocks + number) * BLOCK_HALVES;
            weights = decode(block, slice + own_slice);
        }
        put(own_slice * 16u, own_row, weights.a);
        put(own_slice * 16u + 4u, own_row, weights.b);
        put(own_slice * 16u + 8u, own_row, weights.c);
        put(own_slice * 16u + 12u, own_row, weights.d);
        let place = places(slice + quad / 4u);
        var start = place.x;
        if quad % 4u == 1u { start = place.y; }
        if quad % 4u == 2u { start = place.z; }
        if quad % 4u == 3u { start = place.w; }
        let source = p.start_x + (vector0 + vector) * p.stride_x + number * BLOCK_ELEMENTS + start;
        for (var i = 0u; i < 4u; i++) {
            var v = 0.0;
            if vector0 + vector < p.vectors {
                v = load_x(source + i);
            }
            tile_x[(quad * 4u + i) * 8u + vector / 4u][vector % 4u] = v;
        }
        workgroupBarrier();
        for (var depth = 0u; depth < DEPTH; depth++) {
            let a = tile_x[depth * 8u + ty];
            let b = tile_w[depth * 32u + tx];
            c[0] = fma(vec4<f32>(a.x), b, c[0]);
            c[1] = fma(vec4<f32>(a.y), b, c[1]);
            c[2] = fma(vec4<f32>(a.z), b, c[2]);
            c[3] = fma(vec4<f32>(a.w), b, c[3]);
        }
        workgroupBarrier();
    }
    for (var m = 0u; m < 4u; m++) {
        let own = vector0 + ty * 4u + m;
        for (var i = 0u; i < 4u; i++) {
            let row = row0 + tx * 4u + i;
            if own < p.vectors && row < p.rows {
                store(p.start_out + own * p.stride_out + row, c[m][i]);
            }
        }
    }
}
