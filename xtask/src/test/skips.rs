//! What tests themselves skipped: a test that cannot run here prints `skipped: what: why` and
//! passes. These lines are found in the output that runners keep of passing tests.

/// The mark at the start of a line.
const MARK: &str = "skipped: ";

/// From the output of a run that shows what passing tests print; each line once.
pub(super) fn from_output(lines: &[String]) -> Vec<String> {
    let mut found: Vec<String> = vec![];
    for line in lines {
        let skip = line.trim_start().strip_prefix(MARK).map(str::trim_end);
        if let Some(skip) = skip.filter(|skip| !found.iter().any(|known| known == skip)) {
            found.push(skip.into());
        }
    }
    found
}

/// From nextest's JUnit report, which holds the output of every test between two tags.
pub(super) fn from_junit(report: &str) -> Vec<String> {
    let lines: Vec<String> = report
        .lines()
        .map(|line| {
            let line = line.trim_start();
            let begun = OUTPUT_TAGS.iter().find_map(|(open, _)| line.strip_prefix(open));
            let line = begun.unwrap_or(line);
            let ended = OUTPUT_TAGS.iter().find_map(|(_, close)| line.strip_suffix(close));
            unescape(ended.unwrap_or(line))
        })
        .collect();
    from_output(&lines)
}

const OUTPUT_TAGS: [(&str, &str); 2] =
    [("<system-out>", "</system-out>"), ("<system-err>", "</system-err>")];

fn unescape(text: &str) -> String {
    let named = [("&lt;", "<"), ("&gt;", ">"), ("&quot;", "\""), ("&apos;", "'"), ("&amp;", "&")];
    named.iter().fold(text.to_string(), |text, (code, sign)| text.replace(code, sign))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_skip_is_named_once_in_order() {
        let lines = [
            "skipped: vulkan: none",
            "ok",
            "  skipped: spirv-val: no such file",
            "skipped: vulkan: none",
        ];
        let lines = lines.map(str::to_string);
        assert_eq!(from_output(&lines), ["vulkan: none", "spirv-val: no such file"]);
    }

    #[test]
    fn junit_output_is_read_between_its_tags() {
        let report = "<testcase name=\"skipped: not this\">\n  <system-out>\nskipped: a &lt;b&gt; &amp; c\n\
            </system-out>\n  <system-err>skipped: first line\nmore</system-err>\n\
            <system-err>skipped: both</system-err>\n";
        assert_eq!(from_junit(report), ["a <b> & c", "first line", "both"]);
    }
}
