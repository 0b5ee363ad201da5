//! Pictures in the terminal: by kitty's or iTerm2's protocol where the terminal is known to speak one,
//! else by half blocks in colour. It asks the environment only: a terminal that is asked and does not
//! answer would hold the command up.

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use tintype::image::Picture;

/// Most base64 text in one escape sequence of kitty's protocol.
const CHUNK: usize = 4096;
/// Half blocks in a row, at most.
const COLUMNS: usize = 64;

/// What a terminal understands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Terminal {
    /// <https://sw.kovidgoyal.net/kitty/graphics-protocol/>
    Kitty,
    /// <https://iterm2.com/documentation-images.html>
    Iterm2,
    /// 24-bit colours.
    Blocks,
    /// The 256 colours of xterm.
    FewColours,
}

impl Terminal {
    /// The terminal by its environment variables.
    pub(super) fn of(variable: impl Fn(&str) -> Option<String>) -> Self {
        let has = |name: &str, parts: &[&str]| {
            let value = variable(name).unwrap_or_default().to_lowercase();
            parts.iter().any(|part| value.contains(part))
        };
        // Multiplexers swallow the protocols of the terminal behind them.
        let plain = variable("TMUX").is_none() && variable("STY").is_none();
        if plain && (has("TERM", &["kitty", "ghostty"]) || has("TERM_PROGRAM", &["ghostty"])) {
            Terminal::Kitty
        } else if plain && has("TERM_PROGRAM", &["iterm", "wezterm", "mintty"]) {
            Terminal::Iterm2
        } else if has("COLORTERM", &["truecolor", "24bit"]) {
            Terminal::Blocks
        } else {
            Terminal::FewColours
        }
    }

    /// What to print.
    pub(super) fn show(self, picture: &Picture) -> anyhow::Result<String> {
        Ok(match self {
            Terminal::Kitty => kitty(&picture.to_png(None)?),
            Terminal::Iterm2 => iterm2(&picture.to_png(None)?),
            Terminal::Blocks => blocks(picture, |[r, g, b]| format!("2;{r};{g};{b}")),
            Terminal::FewColours => blocks(picture, |rgb| format!("5;{}", of_256(rgb))),
        })
    }
}

fn kitty(png: &[u8]) -> String {
    let text = BASE64_STANDARD.encode(png);
    let mut out = String::new();
    let mut rest = text.as_str();
    let mut keys = "f=100,a=T,";
    while !rest.is_empty() {
        let (chunk, after) = rest.split_at(CHUNK.min(rest.len()));
        let more = u8::from(!after.is_empty());
        out.push_str(&format!("\x1b_G{keys}m={more};{chunk}\x1b\\"));
        (rest, keys) = (after, "");
    }
    out
}

fn iterm2(png: &[u8]) -> String {
    let text = BASE64_STANDARD.encode(png);
    format!("\x1b]1337;File=inline=1;size={}:{text}\x07", png.len())
}

/// Two pixels a character, the upper as its foreground.
fn blocks(picture: &Picture, colour: impl Fn([u8; 3]) -> String) -> String {
    let columns = COLUMNS.min(picture.width());
    let rows = (picture.height() * columns / picture.width()).max(2).next_multiple_of(2);
    let small = picture.fitted(columns, rows);
    let mut out = String::new();
    let lines = small.rgb().chunks_exact(columns * 3 * 2);
    for (at, line) in lines.enumerate() {
        if at > 0 {
            out.push('\n');
        }
        let (upper, lower) = line.split_at(columns * 3);
        for (upper, lower) in upper.as_chunks::<3>().0.iter().zip(lower.as_chunks::<3>().0) {
            out.push_str(&format!("\x1b[38;{};48;{}m▀", colour(*upper), colour(*lower)));
        }
        out.push_str("\x1b[0m");
    }
    out
}

/// The nearest colour of xterm's 6×6×6 cube or its greys.
fn of_256(rgb: [u8; 3]) -> u8 {
    let level = |index: u8| if index == 0 { 0 } else { 55 + 40 * i32::from(index) };
    let nearest = |x: u8| (0..6).min_by_key(|&i| (level(i) - i32::from(x)).abs()).unwrap_or(0);
    let distance = |of: [i32; 3]| -> i32 {
        of.iter().zip(rgb).map(|(a, b)| (a - i32::from(b)) * (a - i32::from(b))).sum()
    };
    let [r, g, b] = rgb.map(nearest);
    let mean = rgb.iter().map(|&x| i32::from(x)).sum::<i32>() / 3;
    let grey = ((mean - 8 + 5) / 10).clamp(0, 23);
    let grey_level = 8 + 10 * grey;
    match distance([grey_level; 3]) < distance([level(r), level(g), level(b)]) {
        true => 232 + grey as u8,
        false => 16 + 36 * r + 6 * g + b,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn terminal(variables: &[(&str, &str)]) -> Terminal {
        let find = |name: &str| variables.iter().find(|(key, _)| *key == name);
        Terminal::of(|name| find(name).map(|(_, value)| (*value).to_owned()))
    }

    #[test]
    fn terminals_are_known_by_their_variables() {
        assert_eq!(terminal(&[("TERM", "xterm-kitty")]), Terminal::Kitty);
        assert_eq!(terminal(&[("TERM_PROGRAM", "iTerm.app")]), Terminal::Iterm2);
        assert_eq!(terminal(&[("COLORTERM", "truecolor")]), Terminal::Blocks);
        let behind = [("TERM", "xterm-kitty"), ("TMUX", "x"), ("COLORTERM", "24bit")];
        assert_eq!(terminal(&behind), Terminal::Blocks);
        assert_eq!(terminal(&[("TERM", "xterm")]), Terminal::FewColours);
    }

    #[test]
    fn the_png_arrives_whole() {
        let mut rng = fastrand::Rng::with_seed(2);
        let picture = Picture::new(60, 50, (0..9000).map(|_| rng.u8(..)).collect()).unwrap();
        let shown = Terminal::Kitty.show(&picture).unwrap();
        let chunks: Vec<&str> = shown.split_terminator("\x1b\\").collect();
        assert!(chunks.len() > 2 && chunks.iter().all(|chunk| chunk.len() <= CHUNK + 20));
        let text: String = chunks.iter().map(|chunk| chunk.split_once(';').unwrap().1).collect();
        let back = Picture::decode("shown", &BASE64_STANDARD.decode(text).unwrap()).unwrap();
        assert_eq!(back, picture);
        assert!(chunks.last().unwrap().contains("m=0;"));
    }

    #[test]
    fn blocks_show_two_rows_a_line() {
        let rgb = [[255, 0, 0], [0, 255, 0], [0, 0, 255], [255, 255, 255]].concat();
        let picture = Picture::new(2, 2, rgb).unwrap();
        let shown = Terminal::Blocks.show(&picture).unwrap();
        let cell = "\x1b[38;2;255;0;0;48;2;0;0;255m▀\x1b[38;2;0;255;0;48;2;255;255;255m▀\x1b[0m";
        assert_eq!(shown, cell);
        let few = Terminal::FewColours.show(&picture).unwrap();
        assert!(few.starts_with("\x1b[38;5;196;48;5;21m▀"), "{few:?}");
        assert_eq!(of_256([128, 128, 128]), 244);
    }
}
