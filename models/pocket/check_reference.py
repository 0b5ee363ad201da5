"""Proof that the three networks here are the field's: equal weights, equal outputs, against the reference libraries.

Needs `diffusers` and `transformers`; fails (exit 1) on a relative error above 1e-5 or an unknown parameter name.
"""

import sys

import torch
from diffusers import AutoencoderTiny, PixArtTransformer2DModel
from transformers import T5Config, T5EncoderModel

import autoencoder
import pixart
import t5

TOLERANCE = 1e-5


def relative(ours, theirs):
    return ((ours - theirs).norm() / theirs.norm()).item()


def adopt(theirs, ours, absent=()):
    """Load our weights by name; every name must be known on both sides but for `absent` (tied copies)."""
    missing, unexpected = theirs.load_state_dict(ours.state_dict(), strict=False)
    if set(missing) - set(absent) or unexpected:
        raise SystemExit(f"names differ: missing {missing}, unexpected {unexpected}")
    return theirs.eval()


@torch.no_grad()
def main():
    torch.manual_seed(0)
    errors = {}
    tokens = torch.tensor([[5, 6, 7, 8, 1, 0, 0, 0], [9, 1, 0, 0, 0, 0, 0, 0]])
    real = tokens != 0
    c = t5.Config()
    ours = t5.T5Encoder(c).eval()
    config = T5Config(
        vocab_size=c.vocab_size, d_model=c.d_model, d_kv=c.d_kv, d_ff=c.d_ff, num_layers=c.num_layers,
        num_heads=c.num_heads, feed_forward_proj="gated-gelu", layer_norm_epsilon=c.layer_norm_epsilon,
    )
    theirs = adopt(T5EncoderModel(config), ours, ("encoder.embed_tokens.weight",))
    states = ours(tokens, real)
    expected = theirs(input_ids=tokens, attention_mask=real.long()).last_hidden_state
    errors["t5"] = relative(states[real], expected[real])

    c = pixart.Config()
    ours = pixart.PixArt(c).eval()
    for p in ours.parameters():
        if not p.any():  # zero at the start, which would hide what follows
            torch.nn.init.normal_(p, std=0.05)
    theirs = PixArtTransformer2DModel(
        num_attention_heads=c.num_attention_heads, attention_head_dim=c.attention_head_dim, in_channels=c.in_channels,
        out_channels=c.out_channels, num_layers=c.num_layers, cross_attention_dim=c.width, caption_channels=c.caption_channels,
        sample_size=c.sample_size, patch_size=c.patch_size, norm_type="ada_norm_single", attention_bias=True,
        norm_elementwise_affine=False, norm_eps=c.norm_eps, activation_fn="gelu-approximate",
    )
    adopt(theirs, ours)
    x, t = torch.randn(2, 4, 16, 16), torch.tensor([999, 37])
    expected = theirs(
        x, encoder_hidden_states=states, timestep=t, encoder_attention_mask=real.long(),
        added_cond_kwargs={"resolution": None, "aspect_ratio": None},
    ).sample
    errors["pixart"] = relative(ours(x, t, states, real), expected)

    c = autoencoder.Config()
    ours = autoencoder.Autoencoder(c).eval()
    theirs = adopt(AutoencoderTiny(
        encoder_block_out_channels=(c.encoder_channels,) * 4, decoder_block_out_channels=(c.decoder_channels,) * 4,
        num_encoder_blocks=c.encoder_blocks, num_decoder_blocks=c.decoder_blocks,
    ), ours)
    picture, z = torch.rand(1, 3, 128, 128) * 2 - 1, torch.randn(1, 4, 16, 16) * 2
    errors["encoder"] = relative(ours.encoder(picture), theirs.encode(picture).latents)
    errors["decoder"] = relative(ours.decoder(z), theirs.decode(z).sample)

    print({k: f"{v:.1e}" for k, v in errors.items()})
    return all(v < TOLERANCE for v in errors.values())


if __name__ == "__main__":
    sys.exit(0 if main() else 1)
