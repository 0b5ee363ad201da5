//! A guess at the model from what the file says of itself, else from its tensors' names.
//! It must not decide how anything is run; families read their own names.

use serde::Serialize;

use super::super::Weights;

/// What model this seems to be, and how that is known.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Guess {
    /// The architecture, by the field's short name.
    pub name: String,
    /// The metadata key, or the tensor names that only this architecture has.
    pub evidence: String,
}

/// Names that tell architectures apart: the first line whose every part is found (in any tensor's
/// name) wins, so the more particular stand before the more general.
const SIGNS: &[(&str, &[&str])] = &[
    ("controlnet", &["controlnet_cond_embedding."]),
    ("lora", &[".lora_down.weight"]),
    ("lora", &[".lora_A."]),
    ("sdxl", &["input_blocks.", "conditioner.embedders.1.model."]),
    ("sdxl", &["unet.down_blocks.", "unet.add_embedding.linear_1."]),
    ("sdxl-unet", &["down_blocks.", "add_embedding.linear_1."]),
    ("sd2", &["input_blocks.", "cond_stage_model.model."]),
    ("sd1", &["input_blocks.", "cond_stage_model.transformer."]),
    ("sd3", &["joint_blocks.", "x_embedder."]),
    ("flux", &["double_blocks.", "single_blocks."]),
    ("flux", &["single_transformer_blocks.", "transformer_blocks."]),
    ("sd3", &["transformer_blocks.", "context_embedder.", "pos_embed."]),
    ("pixart", &["adaln_single.", "transformer_blocks."]),
    ("sd1", &["unet.down_blocks.", "text_encoder.text_model."]),
    ("sd-unet", &["down_blocks.", "mid_block.attentions.0.", "up_blocks."]),
    ("sd-unet", &["input_blocks.", "middle_block.", "output_blocks."]),
    ("taesd", &["decoder.layers.", "encoder.layers.0.weight", "decoder.layers.1.weight"]),
    ("vae", &["decoder.up_blocks.", "encoder.down_blocks."]),
    ("vae", &["decoder.up.", "encoder.down."]),
    ("t5", &["encoder.block.0.layer.0.SelfAttention."]),
    ("t5", &["enc.blk.0.attn_rel_b."]),
    ("clip", &["text_model.encoder.layers.", "vision_model.encoder.layers."]),
    ("clip-text", &["text_model.encoder.layers."]),
    ("gemma3", &["self_attn.q_norm.", "pre_feedforward_layernorm.", "model.layers.0."]),
    ("gemma2", &["pre_feedforward_layernorm.", "model.layers.0."]),
    ("qwen3", &["self_attn.q_norm.", "model.layers.0.mlp.gate_proj."]),
    ("qwen2", &["self_attn.q_proj.bias", "model.layers.0.mlp.gate_proj."]),
    ("mixtral", &["block_sparse_moe."]),
    ("llama", &["model.layers.0.self_attn.q_proj.", "model.layers.0.mlp.gate_proj."]),
    ("bert", &["encoder.layer.0.attention.self.query."]),
    ("gpt2", &["h.0.attn.c_attn."]),
];

/// Guesses the architecture; `None` if nothing is known by these names.
pub fn architecture(weights: &Weights) -> Option<Guess> {
    let said = |name: &str, evidence: &str| {
        Some(Guess { name: name.to_owned(), evidence: evidence.to_owned() })
    };
    for key in ["general.architecture", "modelspec.architecture"] {
        if let Some(name) = weights.value(key).and_then(|v| v.as_str()) {
            return said(name, key);
        }
    }
    for (_, config) in weights.configs().iter().filter(|(component, _)| component.is_empty()) {
        for key in ["_class_name", "model_type"] {
            if let Some(name) = config[key].as_str() {
                return said(name, &format!("{key} of the folder's configuration"));
            }
        }
    }
    let has = |part: &str| weights.tensors().iter().any(|t| t.name().contains(part));
    let (name, parts) = SIGNS.iter().find(|(_, parts)| parts.iter().all(|part| has(part)))?;
    said(name, &format!("tensors named {}", parts.join(", ")))
}
