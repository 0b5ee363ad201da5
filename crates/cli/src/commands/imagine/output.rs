//! Which file a picture goes to. It must not know how pictures are made.

use std::path::{Path, PathBuf};

use anyhow::bail;

/// Longest part of a prompt in a name.
const LONGEST_NAME: usize = 40;

/// Where pictures go.
#[derive(Debug)]
pub(super) enum Output {
    /// Standard output.
    Stream,
    /// Files by a pattern, replaced if they exist.
    Pattern(String),
    /// New files whose names begin so.
    New(String),
}

impl Output {
    /// Checks all that can be known before there is a picture.
    pub(super) fn new(path: Option<&Path>, prompt: &str, pictures: usize) -> anyhow::Result<Self> {
        let Some(path) = path else { return Ok(Output::New(slug(prompt))) };
        let Some(text) = path.to_str() else {
            bail!("{}: the name is not UTF-8", path.display());
        };
        if text == "-" {
            if pictures > 1 {
                bail!("-o -: standard output takes one picture, not {pictures}");
            }
            return Ok(Output::Stream);
        }
        if !path.extension().is_some_and(|e| e.eq_ignore_ascii_case("png")) {
            bail!("{text}: the name must end in .png; pictures are written as PNG");
        }
        let mut rest = text;
        while let Some((_, after)) = rest.split_once('{') {
            let Some((field, after)) = after.split_once('}') else { break };
            if !matches!(field, "number" | "seed") {
                bail!(
                    "{text}: {{{field}}} stands for nothing; {{number}} is a picture's number, {{seed}} its seed"
                );
            }
            rest = after;
        }
        let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
        if let Some(folder) = folder
            && !folder.to_string_lossy().contains('{')
            && !folder.is_dir()
        {
            bail!("{text}: there is no folder {}", folder.display());
        }
        if path.is_dir() {
            bail!("{text} is a folder");
        }
        let numbered = text.contains("{number}") || text.contains("{seed}");
        let pattern = match pictures > 1 && !numbered {
            // Without a pattern, pictures of a batch are numbered.
            true => path.with_extension("").display().to_string() + "-{number}.png",
            false => text.to_owned(),
        };
        Ok(Output::Pattern(pattern))
    }

    pub(super) fn is_stream(&self) -> bool {
        matches!(self, Output::Stream)
    }

    /// The file of a picture: its number in the request from 0, of how many, and its seed.
    pub(super) fn path(&self, at: usize, pictures: usize, seed: u64) -> PathBuf {
        let width = pictures.to_string().len();
        let number = format!("{:0width$}", at + 1);
        match self {
            Output::Stream => PathBuf::from("-"),
            Output::Pattern(pattern) => {
                pattern.replace("{number}", &number).replace("{seed}", &seed.to_string()).into()
            }
            Output::New(name) => {
                let first = format!("{name}-{seed}.png");
                let others = (2..).map(|n| format!("{name}-{seed}-{n}.png"));
                let mut names = std::iter::once(first).chain(others).map(PathBuf::from);
                names.find(|path| !path.exists()).unwrap_or_else(|| PathBuf::from("picture.png"))
            }
        }
    }
}

/// A prompt as a file's name: its words, lowercase, joined by hyphens.
fn slug(prompt: &str) -> String {
    let lower = prompt.to_lowercase();
    let words = lower.split(|c: char| !c.is_alphanumeric()).filter(|word| !word.is_empty());
    let mut name = String::new();
    for word in words {
        if name.len() + word.len() >= LONGEST_NAME {
            break;
        }
        if !name.is_empty() {
            name.push('-');
        }
        name.push_str(word);
    }
    if name.is_empty() { "picture".into() } else { name }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn output(text: &str, pictures: usize) -> anyhow::Result<Output> {
        Output::new(Some(Path::new(text)), "a cat", pictures)
    }

    fn path(text: &str, at: usize, pictures: usize) -> String {
        output(text, pictures).unwrap().path(at, pictures, 99).display().to_string()
    }

    #[test]
    fn names_follow_the_pattern() {
        assert_eq!(path("a.png", 0, 1), "a.png");
        assert_eq!(path("a.png", 1, 3), "a-2.png");
        assert_eq!(path("a.PNG", 8, 12), "a-09.png");
        assert_eq!(path("x{number}_{seed}.png", 0, 2), "x1_99.png");
        assert_eq!(path("-", 0, 1), "-");
        for (text, pictures, part) in [
            ("-", 2, "one picture"),
            ("a.jpg", 1, ".png"),
            ("a", 1, ".png"),
            ("a{x}.png", 1, "{x} stands for nothing; {number} is"),
            ("no such folder/a.png", 1, "no folder no such folder"),
        ] {
            let error = output(text, pictures).unwrap_err().to_string();
            assert!(error.contains(part), "{error}");
        }
    }

    #[test]
    fn prompts_become_names() {
        assert_eq!(slug("A slice of pizza!"), "a-slice-of-pizza");
        assert_eq!(slug("../../etc/passwd"), "etc-passwd");
        assert_eq!(slug("🍕"), "picture");
        assert_eq!(slug("Käse, 猫"), "käse-猫");
        assert!(slug(&"word ".repeat(50)).len() <= LONGEST_NAME);
    }
}
