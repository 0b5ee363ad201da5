//! Noise, schedules and samplers equal what PyTorch, k-diffusion and diffusers computed
//! (`xtask/python/sampling_goldens.py`); states go on bit for bit.

use serde_json::Value;

use super::*;

fn golden() -> Value {
    serde_json::from_str(include_str!("../../tests/data/sampling.json")).unwrap()
}

fn numbers(value: &Value) -> Vec<f64> {
    value.as_array().unwrap().iter().map(|v| v.as_f64().unwrap()).collect()
}

/// Relative to the larger of the number and 1.
#[track_caller]
fn near(name: &str, got: impl IntoIterator<Item = f64>, expected: &[f64], tolerance: f64) {
    let got: Vec<f64> = got.into_iter().collect();
    assert_eq!(got.len(), expected.len(), "{name}");
    for (i, (a, b)) in got.iter().zip(expected).enumerate() {
        assert!((a - b).abs() <= tolerance * b.abs().max(1.0), "{name} at {i}: {a}, expected {b}");
    }
}

fn wide(numbers: &[f32]) -> impl Iterator<Item = f64> {
    numbers.iter().map(|n| f64::from(*n))
}

fn pocket() -> Schedule {
    Schedule::linear(1000, 1e-4, 0.02).unwrap()
}

fn bare(sigmas: &[f64]) -> Vec<Point> {
    sigmas.iter().map(|sigma| Point { sigma: *sigma, timestep: 0.0 }).collect()
}

/// The stand-in for a network that the goldens use.
fn denoise(latents: &[f32], sigma: f64) -> Vec<f32> {
    latents.iter().map(|x| (f64::from(*x) / (1.0 + sigma)).tanh() as f32).collect()
}

fn finish(sampling: &mut Sampling) {
    while let Some(point) = sampling.point() {
        sampling.advance(&denoise(sampling.latents(), point.sigma)).unwrap();
    }
}

#[test]
fn the_twister_draws_as_torch_on_a_cpu() {
    for case in golden()["mt19937"].as_array().unwrap() {
        let mut noise = Noise::mt19937(case["seed"].as_u64().unwrap());
        let lengths = numbers(&case["lengths"]);
        for (length, expected) in lengths.iter().zip(case["values"].as_array().unwrap()) {
            let drawn = noise.normal(*length as usize);
            let tail = &drawn[drawn.len().saturating_sub(40)..];
            near(&format!("{lengths:?}"), wide(tail), &numbers(expected), 1e-6);
        }
    }
}

/// The known answers of Random123: counter and key all zeros, all ones.
#[test]
fn philox_gives_the_known_answers() {
    assert_eq!(noise::philox_block(0, 0, 0), [0x6627_e8d5, 0xe169_c58d, 0xbc57_ac4c, 0x9b00_dbd8]);
    assert_eq!(
        noise::philox_block(u64::MAX, u64::MAX, u64::MAX),
        [0x408f_276d, 0x41c8_3b0e, 0xa20b_c7c6, 0x6d54_51fd]
    );
}

/// `torch.manual_seed(0); torch.randn(8, device="cuda")`, as Stable Diffusion web UI documents it.
#[test]
fn philox_draws_as_torch_on_cuda() {
    let expected = [
        -0.924_662_59,
        -0.425_344_15,
        -2.643_845_7,
        0.145_183_88,
        -0.120_866_47,
        -0.579_725_64,
        -0.622_851_22,
        -0.328_387_09,
    ];
    near("philox", wide(&Noise::philox(0).normal(8)), &expected, 1e-5);
}

#[test]
fn schedules_equal_k_diffusion_and_diffusers() {
    let golden = golden();
    for (steps, by_name) in golden["schedules"].as_object().unwrap() {
        for (name, expected) in by_name.as_object().unwrap() {
            let points = pocket().points(name.parse().unwrap(), steps.parse().unwrap()).unwrap();
            let sigmas = points.iter().map(|p| p.sigma);
            near(&format!("{name} {steps}"), sigmas, &numbers(expected), 1e-4);
        }
    }
}

#[test]
fn every_schedule_begins_at_the_last_timestep() {
    for scheduler in Scheduler::all() {
        for steps in [1, 2, 19, 20, 1000] {
            let points = pocket().points(scheduler, steps).unwrap();
            assert!((points[0].timestep - 999.0).abs() < 1e-9, "{scheduler:?} {steps}");
            assert_eq!(points.len(), steps + 1);
            state::check(&points).unwrap();
        }
    }
    let timesteps =
        |s| pocket().points(s, 20).unwrap().iter().map(|p| p.timestep).collect::<Vec<_>>();
    assert_eq!(timesteps(Scheduler::Trailing)[..3], [999.0, 949.0, 899.0]);
    assert_eq!(timesteps(Scheduler::Trailing), timesteps(Scheduler::Simple));
    assert!(pocket().points(Scheduler::Simple, 0).is_err());
    assert!(pocket().points(Scheduler::Simple, 1001).is_err());
}

#[test]
fn samplers_equal_k_diffusion_and_diffusers() {
    let golden = golden();
    let sigmas = numbers(&golden["samplers"]["sigmas"]);
    for (name, expected) in golden["samplers"]["latents"].as_object().unwrap() {
        let sampler: Sampler = name.parse().unwrap();
        let mut sampling = if sampler == Sampler::Ddim {
            let points = pocket().points(Scheduler::Trailing, 20).unwrap();
            Sampling::from_noise(sampler, points, 35, Noise::mt19937(77)).unwrap()
        } else {
            let clean = vec![0.0; 35];
            let noise = Noise::mt19937(77);
            Sampling::from_latents(sampler, &bare(&sigmas), clean, 1.0, noise).unwrap()
        };
        finish(&mut sampling);
        near(name, wide(sampling.latents()), &numbers(expected), 2e-5);
    }
}

#[test]
fn lcm_adds_the_next_level_of_noise_to_the_denoised() {
    let (points, noise) = (bare(&[8.0, 2.0, 0.0]), Noise::philox(5));
    let mut sampling = Sampling::from_noise(Sampler::Lcm, points, 21, noise.clone()).unwrap();
    let mut noise = noise;
    noise.normal(21);
    sampling.advance(&[0.25; 21]).unwrap();
    let expected: Vec<f64> = wide(&noise.normal(21)).map(|n| 0.25 + 2.0 * n).collect();
    near("lcm", wide(sampling.latents()), &expected, 1e-6);
}

#[test]
fn a_saved_state_goes_on_bit_for_bit() {
    for sampler in Sampler::all() {
        for (seed, noise) in [Noise::philox(9), Noise::mt19937(9)].into_iter().enumerate() {
            // An odd length below a block of the twister leaves a spare normal in its state.
            let len = 7 + 30 * seed;
            let points = pocket().points(Scheduler::Karras, 6).unwrap();
            let mut whole = Sampling::from_noise(sampler, points, len, noise).unwrap();
            let mut saved = vec![];
            while let Some(point) = whole.point() {
                saved.push(whole.save());
                whole.advance(&denoise(whole.latents(), point.sigma)).unwrap();
            }
            for bytes in saved {
                let mut resumed = Sampling::restore(&bytes).unwrap();
                finish(&mut resumed);
                assert_eq!(resumed.save(), whole.save(), "{sampler:?}");
            }
        }
    }
}

#[test]
fn broken_states_are_refused() {
    let points = pocket().points(Scheduler::Simple, 3).unwrap();
    let noise = Noise::mt19937(1);
    let mut sampling = Sampling::from_noise(Sampler::Dpmpp2m, points, 5, noise).unwrap();
    sampling.advance(&[0.5; 5]).unwrap();
    let bytes = sampling.save();
    for end in 0..bytes.len() {
        assert!(Sampling::restore(&bytes[..end]).is_err(), "{end}");
    }
    for word in 0..bytes.len() / 8 {
        let mut changed = bytes.clone();
        changed[8 * word..8 * word + 8].fill(0xff);
        // Numbers may change; nothing may panic or grow past the file.
        if let Ok(mut restored) = Sampling::restore(&changed) {
            while restored.point().is_some() && restored.advance(&[0.5; 5]).is_ok() {}
        }
    }
}

#[test]
fn bad_predictions_are_refused_and_change_nothing() {
    let points = pocket().points(Scheduler::Simple, 3).unwrap();
    let noise = Noise::philox(1);
    let mut sampling = Sampling::from_noise(Sampler::EulerA, points, 5, noise).unwrap();
    let before = sampling.clone();
    let error = sampling.advance(&[0.0, 0.0, f32::NAN, 0.0, 0.0]).unwrap_err().to_string();
    assert_eq!(error, "step 1 of 3: the denoised prediction is not finite at element 2");
    let error = sampling.advance(&[0.0; 4]).unwrap_err().to_string();
    assert_eq!(error, "the denoised prediction has 4 numbers where the latents have 5");
    assert_eq!(sampling, before);
    finish(&mut sampling);
    assert!(sampling.advance(&[0.0; 5]).unwrap_err().to_string().contains("all 3 steps are done"));
}

#[test]
fn v_and_epsilon_mean_the_same_latents() {
    let points = bare(&[3.0, 0.0]);
    let (noise, clean) = (Noise::philox(3), vec![0.75; 9]);
    let sampling =
        Sampling::from_latents(Sampler::Euler, &points, clean.clone(), 1.0, noise.clone()).unwrap();
    let epsilon = noise.clone().normal(9);
    let (signal, sigma) = (0.1_f32.sqrt(), 0.9_f32.sqrt());
    let v: Vec<f32> = epsilon.iter().zip(&clean).map(|(e, c)| signal * e - sigma * c).collect();
    let clean: Vec<f64> = wide(&clean).collect();
    near("v", wide(&sampling.denoised_from_v(&v)), &clean, 1e-5);
    near("epsilon", wide(&sampling.denoised_from_epsilon(&epsilon)), &clean, 1e-5);
    let expected: Vec<f64> = epsilon.iter().map(|e| f64::from(signal * 0.75 + sigma * e)).collect();
    near("input", wide(&sampling.input()), &expected, 1e-5);
}

#[test]
fn strength_keeps_the_last_steps() {
    let points = pocket().points(Scheduler::Trailing, 20).unwrap();
    let steps = |strength| schedule::by_strength(&points, strength).map(|p| p.len() - 1);
    assert_eq!([1.0, 0.5, 0.01].map(|s| steps(s).unwrap()), [20, 10, 1]);
    for wrong in [0.0, -1.0, 1.1, f32::NAN] {
        assert!(steps(wrong).is_err());
    }
}

#[test]
fn names_are_found_and_near_ones_suggested() {
    for sampler in Sampler::all() {
        assert_eq!(sampler.name().parse(), Ok(sampler));
        assert_eq!(sampler.label().to_uppercase().parse(), Ok(sampler));
    }
    for scheduler in Scheduler::all() {
        assert_eq!(scheduler.name().parse(), Ok(scheduler));
        assert_eq!(scheduler.label().parse(), Ok(scheduler));
    }
    let error = "eulr_a".parse::<Sampler>().unwrap_err().to_string();
    let allowed = "euler, euler_a, ddim, dpm++2m, dpm++2m_sde, lcm";
    let near = "no sampler is called `eulr_a`; did you mean `euler_a`?";
    assert_eq!(error, format!("{near} (allowed: {allowed})"));
    assert!("qqq".parse::<Scheduler>().unwrap_err().near.is_none());
    for source in [RandomSource::Philox, RandomSource::Mt19937] {
        assert_eq!(source.name().parse(), Ok(source));
        let same = match source {
            RandomSource::Philox => Noise::philox(3),
            RandomSource::Mt19937 => Noise::mt19937(3),
        };
        assert_eq!(Noise::new(source, 3), same);
    }
}
