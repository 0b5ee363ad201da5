// Prelude: where an operand's rows lie (Rust: ops/rows.rs).
struct Place {
    start: u32,
    outer0: u32,
    outer1: u32,
    inner: u32,
}

// First element of row `row` of rows laid out `width` to a line.
fn row_start(place: Place, row: u32, width: u32) -> u32 {
    let y = row / width;
    let x = row - y * width;
    return place.start + y * place.outer0 + x * place.outer1;
}
