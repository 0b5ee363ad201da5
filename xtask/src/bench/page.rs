//! Sections of docs/benchmarks.md between `<!-- bench NAME -->` and `<!-- end NAME -->`. It must not know
//! what they say.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

fn page() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/benchmarks.md")
}

/// Shows a section's new text and puts it into the page.
pub(super) fn keep(section: &str, text: &str) -> Result<()> {
    println!("{}", text.trim());
    let path = page();
    let old = std::fs::read_to_string(&path).with_context(|| path.display().to_string())?;
    let new = replaced(&old, section, text)
        .with_context(|| format!("{} has no section {section:?}", path.display()))?;
    std::fs::write(&path, new)?;
    eprintln!("kept in docs/benchmarks.md");
    Ok(())
}

fn replaced(page: &str, section: &str, text: &str) -> Option<String> {
    let (begin, end) = (format!("<!-- bench {section} -->\n"), format!("<!-- end {section} -->"));
    let (before, rest) = page.split_once(&begin)?;
    let (_, after) = rest.split_once(&end)?;
    Some(format!("{before}{begin}\n{}\n\n{end}{after}", text.trim()))
}

#[cfg(test)]
mod tests {
    use super::replaced;

    #[test]
    fn a_section_alone_is_replaced() {
        let page =
            "a\n<!-- bench x -->\nold\n<!-- end x -->\nb\n<!-- bench y -->\n<!-- end y -->\n";
        let new = replaced(page, "x", " new \n").unwrap();
        assert_eq!(new, page.replace("\nold\n", "\n\nnew\n\n"));
        assert_eq!(replaced(&new, "x", "new").unwrap(), new);
        assert!(replaced(page, "z", "new").is_none());
    }
}
