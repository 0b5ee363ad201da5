"""Writes pocket.gguf from the trained weights, and reads it back, dequantized, into the PyTorch networks.

Owns the file's layout: keys, tensor names and types. Each network's tensors keep their checkpoint names
behind diffusers' folder names: `text_encoder.`, `transformer.`, `vae.`.
"""

import argparse
from pathlib import Path

import gguf
import numpy as np
import sentencepiece
import torch
from gguf import GGMLQuantizationType as Type
from safetensors.torch import load_file

import autoencoder
import captions
import compose
import measure
import pixart
import schedule
import t5

LIMIT = 17_000_000  # bytes
PREFIXES = {"text_encoder": "text_encoder.", "transformer": "transformer.", "vae": "vae."}
# Matrices that stay above eight bits: small, and errors in them reach every pixel.
KEPT_HALF = ("proj_out.weight",)
KEPT_FLOAT = ("scale_shift_table", "relative_attention_bias.weight")


def load(folder):
    """train.py's files -> (networks by component name, latent mean and deviation, tokenizer bytes)."""
    rest = load_file(folder / "rest.safetensors")
    if (folder / "decoder.safetensors").exists():  # written by `train.py --refine`
        rest |= {"vae.decoder." + k: v for k, v in load_file(folder / "decoder.safetensors").items()}
    weights = {
        "transformer": load_file(folder / "denoiser-1.safetensors") | load_file(folder / "denoiser-2.safetensors"),
        "text_encoder": {k.removeprefix("text_encoder."): v for k, v in rest.items() if k.startswith("text_encoder.")},
        "vae": {k.removeprefix("vae."): v for k, v in rest.items() if k.startswith("vae.")},
    }
    return weights, rest["latents.mean"], rest["latents.deviation"], rest["tokenizer"].numpy().tobytes()


def pipeline(weights, mean, deviation, tokenizer):
    """The networks with `weights`, for measure.py. `tokenizer`: a SentencePiece model's bytes."""
    networks = {"text_encoder": t5.T5Encoder(), "transformer": pixart.PixArt(), "vae": autoencoder.Autoencoder()}
    for name, network in networks.items():
        network.load_state_dict({k: v.float() for k, v in weights[name].items()})
        network.eval().requires_grad_(False)
    processor = sentencepiece.SentencePieceProcessor(model_proto=tokenizer)
    return measure.Pipeline(processor, networks["text_encoder"], networks["transformer"], networks["vae"], mean, deviation)


@torch.no_grad()
def bank(pipe, pixels, size=32):
    """Standardized latents of every picture on white."""
    found = []
    for part in torch.from_numpy(pixels).split(size):
        n = len(part)
        white = torch.full((n, 3), 255, dtype=torch.uint8)
        x = compose.compose(part, white, torch.zeros(n, dtype=torch.uint8), torch.zeros(n), torch.ones(n, 2))
        found.append(pipe.autoencoder.encoder(x))
    shape = (1, -1, 1, 1)
    return (torch.cat(found) - pipe.mean.view(shape)) / pipe.deviation.view(shape)


def add_tokenizer(writer, model):
    """SentencePiece unigram pieces in llama.cpp's form for T5."""
    from sentencepiece import sentencepiece_model_pb2

    proto = sentencepiece_model_pb2.ModelProto.FromString(model)
    kinds = {1: gguf.TokenType.NORMAL, 2: gguf.TokenType.UNKNOWN, 3: gguf.TokenType.CONTROL}
    writer.add_tokenizer_model("t5")
    writer.add_tokenizer_pre("default")
    writer.add_token_list([p.piece.encode() for p in proto.pieces])
    writer.add_token_scores([p.score for p in proto.pieces])
    writer.add_token_types([int(kinds[p.type]) for p in proto.pieces])
    writer.add_pad_token_id(0)
    writer.add_eos_token_id(1)
    writer.add_unk_token_id(2)
    writer.add_add_bos_token(False)
    writer.add_add_eos_token(True)
    writer.add_add_space_prefix(proto.normalizer_spec.add_dummy_prefix)
    writer.add_remove_extra_whitespaces(proto.normalizer_spec.remove_extra_whitespaces)
    # Ours: the pieces hold no capitals, so a prompt is lower-cased before it is split.
    writer.add_bool("tokenizer.lowercase", True)
    writer.add_uint32("tokenizer.max_length", captions.LENGTH)


def add_settings(writer, mean, deviation):
    c = t5.Config()
    for key, value in {
        "context_length": captions.LENGTH, "embedding_length": c.d_model, "feed_forward_length": c.d_ff,
        "block_count": c.num_layers, "attention.head_count": c.num_heads, "attention.key_length": c.d_kv,
        "attention.value_length": c.d_kv, "attention.relative_buckets_count": c.relative_attention_num_buckets,
        "attention.relative_max_distance": c.relative_attention_max_distance, "vocab_size": c.vocab_size,
    }.items():
        writer.add_uint32(f"t5encoder.{key}", value)
    writer.add_float32("t5encoder.attention.layer_norm_rms_epsilon", c.layer_norm_epsilon)
    c = pixart.Config()
    for key in ("in_channels", "out_channels", "sample_size", "patch_size", "num_attention_heads", "attention_head_dim", "num_layers", "caption_channels"):
        writer.add_uint32(f"pixart.{key}", getattr(c, key))
    writer.add_float32("pixart.norm_eps", c.norm_eps)
    c = autoencoder.Config()
    writer.add_uint32("autoencoder_tiny.latent_channels", c.latent_channels)
    for half in ("encoder", "decoder"):
        blocks = list(getattr(c, f"{half}_blocks"))
        writer.add_array(f"autoencoder_tiny.num_{half}_blocks", blocks)
        writer.add_array(f"autoencoder_tiny.{half}_block_out_channels", [getattr(c, f"{half}_channels")] * len(blocks))
    writer.add_string("diffusion.prediction_type", "v_prediction")
    writer.add_string("diffusion.beta_schedule", "linear")
    writer.add_float32("diffusion.beta_start", schedule.BETA_START)
    writer.add_float32("diffusion.beta_end", schedule.BETA_END)
    writer.add_uint32("diffusion.num_train_timesteps", schedule.STEPS)
    writer.add_string("diffusion.timestep_spacing", "trailing")
    # The denoiser works on (latent - mean) / deviation, channel by channel.
    writer.add_array("diffusion.latent_mean", [float(x) for x in mean])
    writer.add_array("diffusion.latent_deviation", [float(x) for x in deviation])
    writer.add_uint32("diffusion.width", 128)
    writer.add_uint32("diffusion.height", 128)
    writer.add_uint32("diffusion.default_steps", 20)
    writer.add_float32("diffusion.default_guidance", measure.GUIDANCE)


def stored_type(name, shape):
    if name.endswith(KEPT_FLOAT) or len(shape) == 1:
        return Type.F32
    if len(shape) == 2 and shape[-1] % 32 == 0 and not name.endswith(KEPT_HALF):
        return Type.Q8_0
    return Type.F16


def write(folder, path):
    weights, mean, deviation, tokenizer = load(folder)
    writer = gguf.GGUFWriter(path, "pixart")
    writer.add_name("Tintype pocket")
    writer.add_description("Small text-to-image model: T5 encoder, PixArt transformer, TAESD-shaped autoencoder, 128x128")
    writer.add_license("MIT OR Apache-2.0")
    writer.add_string("general.training_data", "Noto Emoji (Apache-2.0), Fluent Emoji (MIT), emojibase-data (MIT), own drawings")
    writer.add_file_type(gguf.LlamaFileType.MOSTLY_Q8_0)
    writer.add_quantization_version(gguf.GGML_QUANT_VERSION)
    add_settings(writer, mean, deviation)
    add_tokenizer(writer, tokenizer)
    for component, prefix in PREFIXES.items():
        for name, tensor in weights[component].items():
            values = tensor.float().numpy()
            kind = stored_type(name, values.shape)
            writer.add_tensor(prefix + name, gguf.quants.quantize(values, kind), raw_dtype=kind)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    size = Path(path).stat().st_size
    if size > LIMIT:
        raise SystemExit(f"{path} has {size} bytes, more than {LIMIT}")
    return size


def tokenizer_of(reader):
    """A SentencePiece model rebuilt from the GGUF's pieces, so that nothing but the file is used."""
    from sentencepiece import sentencepiece_model_pb2

    field = lambda key: reader.get_field(f"tokenizer.ggml.{key}").contents()
    proto = sentencepiece_model_pb2.ModelProto()
    for piece, score, kind in zip(field("tokens"), field("scores"), field("token_type")):
        proto.pieces.add(piece=piece, score=score, type=kind)
    proto.trainer_spec.model_type = 1
    proto.trainer_spec.pad_id, proto.trainer_spec.eos_id = field("padding_token_id"), field("eos_token_id")
    proto.trainer_spec.unk_id, proto.trainer_spec.bos_id = field("unknown_token_id"), -1
    proto.normalizer_spec.name = "identity"
    proto.normalizer_spec.add_dummy_prefix = field("add_space_prefix")
    proto.normalizer_spec.remove_extra_whitespaces = field("remove_extra_whitespaces")
    return proto.SerializeToString()


def read(path):
    """A measure.Pipeline from the GGUF alone, every tensor dequantized to float32."""
    reader = gguf.GGUFReader(path)
    weights = {component: {} for component in PREFIXES}
    for tensor in reader.tensors:
        component, name = tensor.name.split(".", 1)
        shape = [int(n) for n in reversed(tensor.shape)]
        values = gguf.quants.dequantize(tensor.data, tensor.tensor_type).reshape(shape)
        weights[component][name] = torch.from_numpy(np.array(values, np.float32))
    statistics = [torch.tensor(reader.get_field(f"diffusion.latent_{k}").contents()) for k in ("mean", "deviation")]
    return pipeline(weights, *statistics, tokenizer_of(reader))


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--weights", type=Path, required=True, help="folder of train.py's safetensors")
    parser.add_argument("--out", type=Path, default=Path(__file__).parent / "pocket.gguf")
    a = parser.parse_args()
    print(f"{a.out}: {write(a.weights, a.out)} bytes")
