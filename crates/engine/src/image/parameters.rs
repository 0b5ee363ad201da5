//! What made a picture, in the text form of A1111's web UI, which galleries and other tools read.

use super::generate::Generated;
use super::model::ImageModelInfo;
use super::request::ImageRequest;

/// The text of one picture: prompt, negative prompt, then settings by name.
pub fn parameters(request: &ImageRequest, model: &ImageModelInfo, image: &Generated) -> String {
    let mut text = request.prompt.clone();
    if !request.negative.is_empty() {
        text.push_str("\nNegative prompt: ");
        text.push_str(&request.negative);
    }
    let steps = request.steps.unwrap_or(model.default_steps);
    let guidance = request.guidance.unwrap_or(model.default_guidance);
    let mut settings = vec![
        ("Steps", steps.to_string()),
        ("Sampler", request.sampler.label().into()),
        ("Schedule type", request.scheduler.label().into()),
        ("CFG scale", guidance.to_string()),
        ("Seed", image.seed.to_string()),
        ("Size", format!("{}x{}", image.picture.width(), image.picture.height())),
        ("Model", quoted(&model.name)),
        ("RNG", if request.source.name() == "cuda" { "GPU".into() } else { "CPU".into() }),
    ];
    if let Some(strength) = request.strength {
        settings.push(("Denoising strength", strength.to_string()));
    }
    settings.push(("Version", concat!("tintype ", env!("CARGO_PKG_VERSION")).into()));
    let settings: Vec<_> =
        settings.iter().map(|(name, value)| format!("{name}: {value}")).collect();
    format!("{text}\n{}", settings.join(", "))
}

/// Values with a comma, colon or line break stand in JSON's quotes, as the web UI writes them.
fn quoted(value: &str) -> String {
    match value.contains([',', ':', '\n']) {
        true => serde_json::Value::from(value).to_string(),
        false => value.into(),
    }
}
