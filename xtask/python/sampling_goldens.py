"""Noise, schedules and samplers as PyTorch, k-diffusion and diffusers compute them, as one JSON file.

Run with torch 2.15.0, k-diffusion 0.1.1.post1 (without its dependencies) and diffusers 0.42.1:
`python xtask/python/sampling_goldens.py crates/engine/tests/data/sampling.json`. The network is a stand-in, tanh(x / (1 + sigma)).
Only k-diffusion's files `sampling.py` and `external.py` are used; modules that they name and do not need here are left empty.
"""

import importlib.util
import json
import sys
import types
from pathlib import Path

import torch
from diffusers import DDIMScheduler


def k_diffusion():
    """k-diffusion's `sampling` and `external`, without what the rest of the package imports."""
    for name in ("scipy", "scipy.integrate", "torchdiffeq", "torchsde"):
        sys.modules[name] = types.ModuleType(name)
    sys.modules["scipy"].integrate = sys.modules["scipy.integrate"]
    sys.modules["torchdiffeq"].odeint = None
    folder = Path(importlib.util.find_spec("k_diffusion").submodule_search_locations[0])
    package = types.ModuleType("k_diffusion")
    package.__path__ = [str(folder)]
    sys.modules["k_diffusion"] = package
    utils = types.ModuleType("k_diffusion.utils")
    utils.append_dims = lambda x, n: x[(...,) + (None,) * (n - x.ndim)]
    sys.modules["k_diffusion.utils"] = package.utils = utils
    return importlib.import_module("k_diffusion.sampling"), importlib.import_module("k_diffusion.external")


sampling, external = k_diffusion()
betas = torch.linspace(1e-4, 0.02, 1000, dtype=torch.float64)
alphas = (1 - betas).cumprod(0)
levels = external.DiscreteSchedule(((1 - alphas) / alphas).sqrt(), quantize=False)
flat = lambda x: [round(float(v), 9) for v in x.flatten()]


def noise():
    out = []
    for lengths in ([5, 3, 1], [16], [17], [31, 4, 40], [1000]):
        generator = torch.Generator().manual_seed(1234567 + len(lengths))
        values = [flat(torch.randn(n, generator=generator)[-40:]) for n in lengths]
        out.append({"seed": 1234567 + len(lengths), "lengths": lengths, "values": values})
    return out


def schedules():
    out = {}
    for steps in (1, 7, 20):
        t = torch.linspace(999, 0, steps + 1, dtype=torch.float64)[:-1]
        trailing = DDIMScheduler(1000, 1e-4, 0.02, "linear", timestep_spacing="trailing")
        trailing.set_timesteps(steps)
        out[str(steps)] = {
            "discrete": flat(levels.get_sigmas(steps)),
            "karras": flat(sampling.get_sigmas_karras(steps, levels.sigma_min, levels.sigma_max)),
            "sgm_uniform": flat(levels.t_to_sigma(t)) + [0.0],
            "trailing": flat(levels.sigmas[trailing.timesteps]) + [0.0],
        }
    return out


def samplers():
    out = {}
    sigmas = sampling.get_sigmas_karras(7, 0.03, 14.6)
    for name, function in {
        "euler": sampling.sample_euler,
        "euler_a": sampling.sample_euler_ancestral,
        "dpm++2m": sampling.sample_dpmpp_2m,
        "dpm++2m_sde": sampling.sample_dpmpp_2m_sde,
    }.items():
        generator = torch.Generator().manual_seed(77)
        draw = lambda *_: torch.randn(1, 35, generator=generator)
        x = draw() * sigmas[0]
        model = lambda x, sigma: torch.tanh(x / (1 + sigma[:, None]))
        noisy = {"noise_sampler": draw} if name in ("euler_a", "dpm++2m_sde") else {}
        out[name] = flat(function(model, x.double(), sigmas.double(), disable=True, **noisy))
    out["ddim"] = ddim()
    return {"sigmas": flat(sigmas), "latents": out}


def ddim():
    """diffusers' own arithmetic, in its variables, from 20 trailing timesteps."""
    scheduler = DDIMScheduler(1000, 1e-4, 0.02, "linear", clip_sample=False, timestep_spacing="trailing")
    scheduler.set_timesteps(20)
    x = torch.randn(35, generator=torch.Generator().manual_seed(77)).double()
    for t in scheduler.timesteps:
        sigma = levels.sigmas[t]
        full = x * (1 + sigma**2).sqrt()
        epsilon = (full - torch.tanh(full / (1 + sigma))) / sigma
        x = scheduler.step(epsilon, t, x).prev_sample
    return flat(x)


golden = {"mt19937": noise(), "schedules": schedules(), "samplers": samplers()}
Path(sys.argv[1]).write_text(json.dumps(golden, separators=(",", ":")) + "\n")
