//! Progress bars: on standard error, and only where somebody watches. It must not know commands.

use std::time::Duration;

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

/// A bar of this template; hidden for programs that read the output.
pub(crate) fn bar(template: &str, hidden: bool) -> ProgressBar {
    let target = if hidden { ProgressDrawTarget::hidden() } else { ProgressDrawTarget::stderr() };
    let bar = ProgressBar::with_draw_target(Some(0), target);
    // Templates are constants that tests parse.
    let style =
        ProgressStyle::with_template(template).unwrap_or_else(|_| ProgressStyle::default_bar());
    bar.set_style(style.with_key("left", left).with_key("rate", rate));
    bar
}

/// Time left, once there is a rate.
fn left(state: &indicatif::ProgressState, out: &mut dyn std::fmt::Write) {
    if state.pos() > 0 {
        let left = state.eta().max(Duration::from_millis(100)).as_secs_f64();
        let _full = match left < 60.0 {
            true => write!(out, "{left:.1} s left"),
            false => write!(out, "{:.0} min left", (left / 60.0).ceil()),
        };
    }
}

/// Units a second, once there are some.
fn rate(state: &indicatif::ProgressState, out: &mut dyn std::fmt::Write) {
    if state.pos() > 0 {
        let _full = write!(out, "{:.1}/s", state.per_sec());
    }
}
