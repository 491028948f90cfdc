--- Modules that selective recomputation may repeat, by the names of Megatron-LM's --recompute-modules
-- (megatron/core/transformer/transformer_config.py). Only mlp_act is not one of them: the activation of a dense MLP.
local modules = {}

modules.names = { "core_attn", "layernorm", "mla_up_proj", "mlp", "mlp_act", "moe", "moe_act", "shared_experts" }

--- Modules that lie inside another one. If both are to be repeated, the outer one is.
modules.within = { mlp_act = "mlp", moe_act = "moe", shared_experts = "moe" }

--- Modules that are checkpointed: only their input stays, in 16 bits, and all their operators run again. Other modules
--- keep their inputs and discard their output, except the core of attention.
modules.checkpointed = { mlp = true, moe = true, shared_experts = true }

return modules
