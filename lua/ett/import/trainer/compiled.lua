--- Fields of a stack for layers that PyTorch compiles: the differences of the stacks torchtitan and torchtitan_eager.
---
---   stack = stack .. compiled(note, "torch_compile")
---
--- Transformers compiles the whole model (trainer.py), whose loss is a part of it. Hooks of FSDP and DeepSpeed and
--- checkpoints of layers break its graph (torch._dynamo), but the graph of a layer remains. A loop over experts reads
--- from the device, so its host time remains, too.

---@param note fun(format: string, ...)
---@param name string field of the file
---@return string
return function(note, name)
  note("%s is modelled as torchtitan's compiled layers: fused norms, rotation, activations and loss, fewer launches",
    name)
  return ":norm=compiled:cross_entropy=compiled:rope=1:gated_mlp=1:launch_seconds=1.2e-05"
end
