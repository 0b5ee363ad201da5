"""Writes what transformers computes in F32 from the weights of the real Gemma 3 270M: logits after each
prompt, and its choice at every place of llama.cpp's texts, with how far the second choice is behind.

Prompts and texts are those of gemma3_greedy.json, which text_goldens.py wrote. The file is
named by TINTYPE_TEST_GEMMA3. Run by `cargo xtask golden`.
"""

import json
import os
import sys
from pathlib import Path

import gguf
import numpy as np
import torch
from transformers import Gemma3ForCausalLM, Gemma3TextConfig

EACH = 1024
NAMES = {
    "attn_q": "self_attn.q_proj", "attn_k": "self_attn.k_proj", "attn_v": "self_attn.v_proj", "attn_output": "self_attn.o_proj",
    "attn_q_norm": "self_attn.q_norm", "attn_k_norm": "self_attn.k_norm", "attn_norm": "input_layernorm",
    "post_attention_norm": "post_attention_layernorm", "ffn_norm": "pre_feedforward_layernorm",
    "post_ffw_norm": "post_feedforward_layernorm", "ffn_gate": "mlp.gate_proj", "ffn_up": "mlp.up_proj", "ffn_down": "mlp.down_proj",
}


def model_of(reader):
    value = lambda key: reader.fields[f"gemma3.{key}"].contents()
    config = Gemma3TextConfig(
        vocab_size=262144, hidden_size=value("embedding_length"), intermediate_size=value("feed_forward_length"),
        num_hidden_layers=value("block_count"), num_attention_heads=value("attention.head_count"),
        num_key_value_heads=value("attention.head_count_kv"), head_dim=value("attention.key_length"),
        max_position_embeddings=value("context_length"), rms_norm_eps=value("attention.layer_norm_rms_epsilon"),
        sliding_window=value("attention.sliding_window"), query_pre_attn_scalar=value("attention.key_length"),
        rope_parameters={"full_attention": {"rope_type": "default", "rope_theta": value("rope.freq_base")},
                         "sliding_attention": {"rope_type": "default", "rope_theta": 10000.0}},
        attn_implementation="eager", dtype=torch.float32,
    )
    state = {}
    for tensor in reader.tensors:
        data = torch.from_numpy(gguf.dequantize(tensor.data, tensor.tensor_type).astype(np.float32))
        parts = tensor.name.split(".")
        if parts[0] == "blk":
            name = f"model.layers.{parts[1]}.{NAMES[parts[2]]}.weight"
        else:
            name = {"token_embd": "model.embed_tokens.weight", "output_norm": "model.norm.weight"}[parts[0]]
        state[name] = data - 1 if "norm" in name else data
    state["lm_head.weight"] = state["model.embed_tokens.weight"]
    model = Gemma3ForCausalLM(config)
    model.load_state_dict(state)
    return model.eval().float()


def main(folder):
    model = model_of(gguf.GGUFReader(os.environ["TINTYPE_TEST_GEMMA3"]))
    rows = []
    for row in json.loads((folder / "gemma3_greedy.json").read_text()):
        with torch.no_grad():
            logits = model(torch.tensor([row["ids"] + row["tokens"][:-1]])).logits[0, len(row["ids"]) - 1 :]
        two = logits.topk(2)
        rows.append({
            "logits": [round(float(x), 6) for x in logits[0, ::EACH]],
            "choices": two.indices[:, 0].tolist(),
            "gaps": [round(float(a - b), 5) for a, b in two.values],
        })
    lines = ",\n".join(json.dumps(row, separators=(",", ":")) for row in rows)
    (folder / "gemma3_f32.json").write_text(f"[\n{lines}\n]\n")


main(Path(sys.argv[1]))
