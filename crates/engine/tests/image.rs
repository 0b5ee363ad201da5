//! The image pipeline with the built-in model: pictures, repeats, first pictures and masks, refusals,
//! cancellation, and one device against another.
#![allow(clippy::unwrap_used)]

use std::sync::atomic::{AtomicUsize, Ordering};

use tintype::image::{
    CancelToken, Checkpoint, Generated, ImageError, ImageModel, LoadOptions, Observer, Phase,
    Picture, SavedGeneration,
};
use tintype::sampling::{RandomSource, Sampler, Scheduler};
use tintype::{ImageRequest, ImageResult};
use tintype_gpu::{Backend, Device, DeviceOptions, Selector};

fn model(threads: usize) -> ImageModel {
    let device = Device::cpu(DeviceOptions { threads, ..DeviceOptions::default() }).unwrap();
    ImageModel::built_in(&LoadOptions { device: Some(device), ..LoadOptions::default() }).unwrap()
}

fn make(model: &ImageModel, request: &ImageRequest) -> ImageResult {
    model.generate(request, &CancelToken::new(), &mut |_| ()).unwrap()
}

fn picture(model: &ImageModel, request: &ImageRequest) -> Picture {
    make(model, request).images.remove(0).picture
}

/// Peak signal to noise, in decibels.
fn psnr(a: &[u8], b: &[u8]) -> f64 {
    assert_eq!(a.len(), b.len());
    let squares: f64 = a.iter().zip(b).map(|(a, b)| (f64::from(*a) - f64::from(*b)).powi(2)).sum();
    10.0 * (255.0 * 255.0 * a.len() as f64 / squares.max(f64::MIN_POSITIVE)).log10()
}

/// Mean colour of the outermost pixels.
fn ground(picture: &Picture) -> [f64; 3] {
    let (w, h) = (picture.width(), picture.height());
    let edge: Vec<&[u8]> = (0..w * h)
        .filter(|at| at % w < 3 || at % w >= w - 3 || at / w < 3 || at / w >= h - 3)
        .map(|at| &picture.rgb()[at * 3..at * 3 + 3])
        .collect();
    std::array::from_fn(|c| {
        edge.iter().map(|pixel| f64::from(pixel[c])).sum::<f64>() / edge.len() as f64
    })
}

#[test]
fn the_ground_has_the_colour_that_is_asked_for() {
    let model = model(0);
    for (colour, high, low) in [("red", 0, 2), ("blue", 2, 0)] {
        let prompt = format!("an apple on a {colour} background");
        let found = ground(&picture(&model, &ImageRequest::new(prompt).seed(3).steps(12)));
        assert!(found[high] > 120.0 && found[low] < found[high] - 60.0, "{colour}: {found:?}");
    }
    let white = ground(&picture(&model, &ImageRequest::new("a green frog").seed(3).steps(12)));
    assert!(white.iter().all(|&x| x > 235.0), "{white:?}");
}

#[test]
fn a_seed_gives_the_same_bytes_again_for_any_threads_and_in_a_batch() {
    let (one, two) = (model(1), model(2));
    for (sampler, scheduler) in [
        (Sampler::Ddim, Scheduler::Trailing),
        (Sampler::EulerA, Scheduler::Karras),
        (Sampler::Dpmpp2mSde, Scheduler::SgmUniform),
    ] {
        let request = ImageRequest::new("a hot air balloon")
            .seed(41)
            .steps(5)
            .sampler(sampler)
            .scheduler(scheduler);
        let first = picture(&one, &request);
        assert_eq!(picture(&one, &request), first, "{sampler:?}");
        assert_eq!(picture(&two, &request), first, "{sampler:?} on two threads");
        let batch = make(&two, &request.clone().seed(40).batch(2));
        assert_eq!(batch.images[1].picture, first, "{sampler:?} in a batch");
        assert_eq!((batch.images[1].seed, batch.steps), (41, 5));
        assert_ne!(batch.images[0].picture, first);
    }
}

/// `xtask/python/pocket_goldens.py`: the training code on the same weights, 20 DDIM steps, guidance 3,
/// noise from `torch.manual_seed`.
#[test]
fn pictures_equal_those_of_the_training_code() {
    let golden = include_bytes!("data/pocket.safetensors");
    let golden = safetensors::SafeTensors::deserialize(golden).unwrap();
    let model = model(0);
    for (name, view) in golden.tensors() {
        let (prompt, seed) = name.rsplit_once('#').unwrap();
        let request = ImageRequest::new(prompt)
            .seed(seed.parse().unwrap())
            .steps(20)
            .guidance(3.0)
            .random_source(RandomSource::Mt19937);
        let found = psnr(picture(&model, &request).rgb(), view.data());
        eprintln!("{prompt:?}: {found:.1} dB");
        assert!(found >= 40.0, "{prompt:?}: {found:.1} dB");
    }
}

#[test]
fn guidance_of_one_asks_the_prompt_alone() {
    let model = model(0);
    let request = ImageRequest::new("a rose").seed(2).steps(6).guidance(1.0);
    let plain = picture(&model, &request);
    assert_eq!(picture(&model, &request.clone().negative("red")), plain);
    // The same formula through the guided plan: away + 1·(toward − away), up to rounding.
    let near = picture(&model, &request.guidance(1.000_001));
    let found = psnr(plain.rgb(), near.rgb());
    assert!(found > 45.0, "{found:.1} dB");
}

#[test]
fn a_gpu_draws_what_the_cpu_draws() {
    let selector = Selector::Backend(Backend::Vulkan, None);
    let vulkan = Device::open(&selector, DeviceOptions::default());
    let device = match vulkan {
        Ok(device) => device,
        Err(error) => {
            assert!(
                std::env::var("TINTYPE_TEST_VULKAN").as_deref() != Ok("required"),
                "Vulkan is promised: {error}"
            );
            eprintln!("skipped: a_gpu_draws_what_the_cpu_draws: no Vulkan device ({error})");
            return;
        }
    };
    let options = LoadOptions { device: Some(device), ..LoadOptions::default() };
    let gpu = ImageModel::built_in(&options).unwrap();
    let request = ImageRequest::new("a slice of pizza").seed(900).steps(4);
    let [a, b] = [&model(0), &gpu].map(|model| picture(model, &request));
    let found = psnr(a.rgb(), b.rgb());
    eprintln!("{found:.1} dB between the CPU and {}", gpu.info().device);
    assert!(found >= 40.0, "{found:.1} dB");
    assert_eq!(picture(&gpu, &request), b, "again on the GPU");
}

#[test]
fn a_first_picture_is_kept_the_more_the_lower_the_strength() {
    let model = model(0);
    let init = picture(&model, &ImageRequest::new("a red apple").seed(5).steps(8));
    let request = ImageRequest::new("a green apple").seed(6).steps(10);
    let [near, far] = [0.2, 0.9].map(|strength| {
        let result = make(&model, &request.clone().init(init.clone(), strength));
        assert_eq!(result.steps, if strength == 0.2 { 2 } else { 9 });
        psnr(init.rgb(), result.images[0].picture.rgb())
    });
    assert!(near > far + 3.0 && near > 18.0, "{near:.1} dB, {far:.1} dB");
}

#[test]
fn a_mask_keeps_what_is_black_to_the_byte() {
    let model = model(0);
    let init = picture(&model, &ImageRequest::new("a cat on a blue background").seed(5).steps(8));
    let (w, h) = (init.width(), init.height());
    let white = |at: usize| if at % w >= w / 2 { 255 } else { 0 };
    let mask = Picture::new(w, h, (0..w * h).flat_map(|at| [white(at); 3]).collect()).unwrap();
    let request = ImageRequest::new("a dog").seed(9).steps(8).init(init.clone(), 1.0).mask(mask);
    let painted = picture(&model, &request);
    let mut changed = 0;
    for (at, (a, b)) in init.rgb().chunks(3).zip(painted.rgb().chunks(3)).enumerate() {
        if white(at) == 0 {
            assert_eq!(a, b, "pixel {at}");
        } else {
            changed += usize::from(a != b);
        }
    }
    assert!(changed > w * h / 8, "{changed} pixels changed");
}

#[test]
fn impossible_requests_are_refused_with_what_is_allowed() {
    let model = model(1);
    let small = Picture::new(2, 2, vec![0; 12]).unwrap();
    let whole = Picture::new(128, 128, vec![0; 128 * 128 * 3]).unwrap();
    let request = || ImageRequest::new("a cup");
    for (request, words) in [
        (request().size(512, 512), "128×128"),
        (request().steps(0), "1 to 1000"),
        (request().steps(1001), "1 to 1000"),
        (request().guidance(0.5), "1 (off) to 100"),
        (request().guidance(f32::NAN), "1 (off) to 100"),
        (request().batch(0), "1 to 1024"),
        (request().batch(2).seed(u64::MAX), "smaller seed"),
        (request().init(small, 0.5), "2×2"),
        (request().init(whole.clone(), 0.0), "above 0"),
        (request().init(whole.clone(), f32::NAN), "above 0"),
        (request().mask(whole), "no first picture"),
        (ImageRequest::new("x".repeat(70_000)), "65536"),
    ] {
        let error = model.generate(&request, &CancelToken::new(), &mut |_| panic!("work began"));
        let error = error.unwrap_err();
        assert!(matches!(error, ImageError::Request { .. }), "{error}");
        assert!(error.to_string().contains(words), "{error}");
    }
    assert!(Picture::new(3, 3, vec![0; 5]).is_err());
}

#[test]
fn odd_prompts_and_both_generators_are_taken() {
    let model = model(0);
    for prompt in ["", "🍕", "猫", "a\u{0}b\n", &"word ".repeat(500)] {
        let request = ImageRequest::new(prompt).steps(1).random_source(RandomSource::Mt19937);
        assert_eq!(picture(&model, &request).width(), 128, "{prompt:?}");
    }
}

#[test]
fn progress_counts_every_phase_from_nothing_to_all() {
    let model = model(0);
    let mut generation = model.start(ImageRequest::new("a key").steps(3).batch(2)).unwrap();
    let told: Vec<_> = generation.by_ref().collect();
    assert_eq!(generation.finish().unwrap().images.len(), 2);
    for picture in 0..2 {
        let steps: Vec<_> = told
            .iter()
            .filter(|p| (p.phase, p.picture) == (Phase::Denoise, picture))
            .map(|p| (p.done, p.total, p.pictures))
            .collect();
        assert_eq!(steps, [(0, 3, 2), (1, 3, 2), (2, 3, 2), (3, 3, 2)]);
    }
    assert!(told.iter().any(|p| p.phase == Phase::Text && p.done == p.total));
    assert!(told.last().is_some_and(|p| (p.phase, p.done) == (Phase::Decode, 1)));
}

#[test]
fn a_cancel_at_any_report_ends_the_work_and_the_model_goes_on() {
    let model = model(0);
    let request = ImageRequest::new("a boat").seed(8).steps(3);
    let reports = AtomicUsize::new(0);
    let mut count = |_: &tintype::image::Progress| {
        reports.fetch_add(1, Ordering::Relaxed);
    };
    let right = model.generate(&request, &CancelToken::new(), &mut count).unwrap();
    // The last report comes after the work.
    for at in 0..reports.load(Ordering::Relaxed) - 1 {
        let cancel = CancelToken::new();
        let mut seen = 0;
        let outcome = model.generate(&request, &cancel, &mut |_| {
            if seen == at {
                cancel.cancel();
            }
            seen += 1;
        });
        assert!(matches!(outcome, Err(ImageError::Cancelled(_))), "report {at}: {outcome:?}");
    }
    let cancelled = CancelToken::new();
    cancelled.cancel();
    assert!(model.generate(&request, &cancelled, &mut |_| ()).is_err(), "it is sticky");
    assert!(
        ImageModel::built_in(&LoadOptions { cancel: cancelled, ..Default::default() }).is_err()
    );
    assert_eq!(make(&model, &request).images, right.images);
    // Dropped at work: it is cancelled and waited for.
    drop(model.start(request.clone().steps(1000)).unwrap());
    assert_eq!(make(&model, &request).images, right.images);
}

#[test]
fn files_without_an_image_model_say_what_is_missing() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("other.safetensors");
    let header = br#"{"x":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}}"#;
    let mut bytes = (header.len() as u64).to_le_bytes().to_vec();
    bytes.extend(header);
    bytes.extend([0; 4]);
    std::fs::write(&path, bytes).unwrap();
    let error = ImageModel::open(&path, &LoadOptions::default()).unwrap_err().to_string();
    assert!(error.contains("T5 encoder") && error.contains("supported are"), "{error}");
    let missing = ImageModel::open(folder.path().join("none.gguf"), &LoadOptions::default());
    assert!(matches!(missing, Err(ImageError::Weights(_))));
}

/// Keeps what it is told.
#[derive(Default)]
struct Keeper {
    checkpoints: Vec<(usize, usize, Vec<u8>)>,
    pictures: Vec<Picture>,
}

impl Observer for Keeper {
    fn picture(&mut self, image: &Generated) {
        self.pictures.push(image.picture.clone());
    }

    fn step(&mut self, checkpoint: &Checkpoint<'_>) {
        self.checkpoints.push((checkpoint.picture(), checkpoint.done(), checkpoint.save()));
    }
}

#[test]
fn a_saved_generation_goes_on_bit_for_bit() {
    let (model, other) = (model(2), model(1));
    let noise = |seed| {
        let mut rng = fastrand::Rng::with_seed(seed);
        Picture::new(128, 128, (0..128 * 128 * 3).map(|_| rng.u8(..)).collect()).unwrap()
    };
    let plain = ImageRequest::new("a \"red\" fox, 狐").negative("blue").seed(u64::MAX - 9).batch(2);
    let requests = [
        plain.clone().sampler(Sampler::EulerA).scheduler(Scheduler::Karras).steps(4),
        plain.clone().sampler(Sampler::Dpmpp2mSde).random_source(RandomSource::Mt19937).steps(3),
        plain.guidance(1.0).steps(6).init(noise(1), 0.7).mask(noise(2)),
    ];
    for request in requests {
        let mut keeper = Keeper::default();
        let whole =
            model.generate_observed(&request, &CancelToken::new(), &mut keeper).unwrap().images;
        assert_eq!(keeper.pictures.len(), 2);
        assert_eq!(keeper.checkpoints.len(), 2 * model_steps(&keeper));
        for (picture, done, bytes) in &keeper.checkpoints {
            let saved = SavedGeneration::from_bytes(bytes).unwrap();
            assert_eq!((saved.picture(), saved.done()), (*picture, *done));
            let mut rest = Keeper::default();
            let left = other.resume(&saved, &CancelToken::new(), &mut rest).unwrap();
            assert_eq!(left.images, whole[*picture..], "{picture} {done}");
        }
    }
}

fn model_steps(keeper: &Keeper) -> usize {
    keeper.checkpoints.iter().map(|(_, done, _)| *done).max().unwrap()
}

#[test]
fn damaged_and_foreign_checkpoints_are_refused() {
    let model = model(0);
    let request = ImageRequest::new("a cat").steps(2).guidance(1.0);
    let mut keeper = Keeper::default();
    model.generate_observed(&request, &CancelToken::new(), &mut keeper).unwrap();
    let bytes = &keeper.checkpoints[0].2;
    for end in (0..bytes.len()).step_by(61) {
        assert!(SavedGeneration::from_bytes(&bytes[..end]).is_err(), "{end}");
    }
    let mut rng = fastrand::Rng::with_seed(8);
    for _ in 0..3000 {
        let mut broken = bytes.clone();
        let header = 12 + u32::from_le_bytes(bytes[8..12].try_into().unwrap()) as usize;
        let at = rng.usize(8..header + 100);
        broken[at] = rng.u8(..);
        // Some are sound still; none may panic.
        if let Ok(saved) = SavedGeneration::from_bytes(&broken) {
            assert!(saved.done() <= saved.steps());
            let _result = saved.request().validate(model.info());
        }
    }
    let text = String::from_utf8_lossy(bytes);
    let at = text.find("fingerprint").unwrap() + "fingerprint\":".len();
    let mut foreign = bytes.clone();
    foreign[at] = if foreign[at] == b'1' { b'2' } else { b'1' };
    let saved = SavedGeneration::from_bytes(&foreign).unwrap();
    let error = model.resume(&saved, &CancelToken::new(), &mut Keeper::default()).unwrap_err();
    assert!(error.to_string().contains("another model"), "{error}");
    let error = SavedGeneration::read("no/such/file").unwrap_err().to_string();
    assert!(error.contains("no/such/file"), "{error}");
}

#[test]
fn models_lie_in_the_registry_and_requests_take_turns() {
    let registry = tintype_registry::Registry::global();
    let model = model(0);
    let view = ImageModel::view(model.lend()).unwrap();
    let request = ImageRequest::new("a bell").seed(4).steps(2);
    let right = make(&view, &request).images;
    // Queued behind a long one, a cancelled request does not wait for its turn.
    let long = model.start(request.clone().steps(1000)).unwrap();
    let queued = model.start(request.clone()).unwrap();
    queued.cancel_token().cancel();
    assert!(matches!(queued.finish(), Err(ImageError::Cancelled(_))));
    long.cancel_token().cancel();
    assert!(matches!(long.finish(), Err(ImageError::Cancelled(_))));
    // Asked of the model, a cancel ends one generation: this one, if it comes before the work.
    registry.cancel(model.lend()).unwrap();
    let outcome = model.generate(&request, &CancelToken::new(), &mut |_| ());
    assert!(matches!(outcome, Err(ImageError::Cancelled(_))), "{outcome:?}");
    assert_eq!(make(&model, &request).images, right);
    // Freed at work: the work ends, and nothing can be asked of the model any more.
    let long = model.start(request.clone().steps(1000)).unwrap();
    registry.free(model.lend()).unwrap();
    assert!(matches!(long.finish(), Err(ImageError::Cancelled(_) | ImageError::Registry(_))));
    assert!(matches!(
        view.generate(&request, &CancelToken::new(), &mut |_| ()),
        Err(ImageError::Registry(tintype_registry::RegistryError::Freed))
    ));
    assert!(ImageModel::view(model.lend()).is_err());
}
