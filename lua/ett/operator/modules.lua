--- Modules that selective recomputation may repeat. The names are those of Megatron-LM's --recompute-modules
-- (megatron/core/transformer/transformer_config.py), except mlp_act, the activation of a dense MLP.
local modules = {}

modules.names = { "core_attn", "layernorm", "mla_up_proj", "mlp", "mlp_act", "moe", "moe_act", "shared_experts" }

--- Modules that are inside another module. If a plan names both, the outer module is repeated.
modules.within = { mlp_act = "mlp", moe_act = "moe", shared_experts = "moe" }

--- Modules that are checkpointed: only their input is stored, in 16 bits, and all their operators run again. Other
--- modules, except the core of attention, store their inputs and discard their output.
modules.checkpointed = { mlp = true, moe = true, shared_experts = true }

--- Outputs of norms that a policy of recomputation may store by name: MaxText's compressed queries and keys of latent
--- attention (layers/attention_mla.py, checkpoint_name).
modules.tensors = { mla_q = true, mla_kv = true }

return modules
