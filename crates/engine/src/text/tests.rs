//! Choosing and stopping, without a model.

use super::TextRequest;
use super::choose::{Chooser, likeliest, log_probability};
use super::stop::Stops;

#[test]
fn chance_follows_the_settings() {
    let logits = [1.0f32, 3.0, 2.0, -1.0, 2.5];
    let draw = |request: TextRequest, count: usize| {
        let mut chooser = Chooser::new(&request);
        let mut seen = [0usize; 5];
        for _ in 0..count {
            seen[chooser.choose(&mut logits.clone(), &[]).unwrap() as usize] += 1;
        }
        seen
    };
    let open = || TextRequest::new("").temperature(1.0).top_k(0).top_p(1.0).min_p(0.0);
    // All tokens, as often as their probability says: within five deviations of a binomial.
    let count = 40_000;
    let sum: f64 = logits.iter().map(|x| f64::from(*x).exp()).sum();
    for (seen, logit) in draw(open(), count).into_iter().zip(logits) {
        let p = f64::from(logit).exp() / sum;
        let deviation = (count as f64 * p * (1.0 - p)).sqrt();
        assert!((seen as f64 - count as f64 * p).abs() < 5.0 * deviation, "{seen} of {p}");
    }
    let among = |request, allowed: &[usize]| {
        let seen = draw(request, 2000);
        let there: Vec<_> = (0..5).filter(|&at| seen[at] > 0).collect();
        assert_eq!(there, allowed);
    };
    among(open().top_k(2), &[1, 4]);
    // 0.476 and 0.289 of probability: the second is needed for 0.5, the third for 0.8.
    among(open().top_p(0.4), &[1]);
    among(open().top_p(0.5), &[1, 4]);
    among(open().top_p(0.8), &[1, 2, 4]);
    // e^−1 = 0.37 times the likeliest is token 2.
    among(open().min_p(0.36), &[1, 2, 4]);
    among(open().min_p(0.38), &[1, 4]);
    among(open().greedy(), &[1]);
    assert_eq!(draw(open().seed(3), 50), draw(open().seed(3), 50));
    assert_ne!(draw(open().seed(3), 50), draw(open().seed(4), 50));
}

#[test]
fn what_was_said_is_said_less() {
    let request = TextRequest::new("").greedy().repeat_penalty(2.0, 2);
    let choose = |before: &[u32]| Chooser::new(&request).choose(&mut [3.0, 2.0, -1.0], before);
    assert_eq!(choose(&[]), Some(0));
    assert_eq!(choose(&[0]), Some(1));
    // Only the last two count, and each once.
    assert_eq!(choose(&[0, 2, 2]), Some(0));
    assert_eq!(choose(&[1, 0, 0]), Some(1));
    assert_eq!(Chooser::new(&request).choose(&mut [-1.0, -1.5], &[0]), Some(1));
}

#[test]
fn numbers_that_are_none_are_no_choice() {
    for bad in [f32::NAN, f32::INFINITY, f32::NEG_INFINITY] {
        assert_eq!(likeliest(&[1.0, bad]), None);
        let request = TextRequest::new("");
        assert_eq!(Chooser::new(&request).choose(&mut [1.0, bad], &[]), None);
    }
    assert_eq!(likeliest(&[]), None);
    let sum: f64 = (0..3).map(|at| log_probability(&[1.0, 2.0, 0.5], at).exp()).sum();
    assert!((sum - 1.0).abs() < 1e-12);
}

#[test]
fn stop_strings_are_found_however_text_is_cut() {
    let stops = ["END".to_owned(), "\n\n".to_owned(), "ENDING".to_owned(), "é!".to_owned()];
    let mut random = fastrand::Rng::with_seed(5);
    let alphabet: Vec<char> = "END\nING é!x".chars().collect();
    for _ in 0..3000 {
        let text: String =
            (0..random.usize(..20)).map(|_| *random.choice(&alphabet).unwrap()).collect();
        let first = stops.iter().filter_map(|stop| text.find(&stop[..])).min();
        let mut held = Stops::new(&stops);
        let (mut out, mut ended) = (String::new(), false);
        let mut rest = text.chars().collect::<Vec<_>>();
        while !rest.is_empty() && !ended {
            let part: String = rest.drain(..random.usize(1..=rest.len())).collect();
            let (sure, stop) = held.push(&part);
            out.push_str(&sure);
            ended = stop.is_some();
        }
        if !ended {
            out.push_str(&held.finish());
        }
        assert_eq!(ended, first.is_some(), "{text:?}");
        assert_eq!(out, text[..first.unwrap_or(text.len())], "{text:?}");
    }
}

#[test]
fn impossible_requests_are_refused() {
    let ok = || TextRequest::new("a");
    assert!(ok().validate().is_ok());
    for bad in [
        ok().max_tokens(0),
        ok().temperature(-1.0),
        ok().temperature(f32::NAN),
        ok().top_p(0.0),
        ok().top_p(1.5),
        ok().min_p(-0.1),
        ok().repeat_penalty(0.0, 3),
        ok().stop(""),
        ok().stop("x".repeat(2000)),
    ] {
        assert!(bad.validate().is_err(), "{bad:?}");
    }
}
