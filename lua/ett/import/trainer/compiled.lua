--- Fields of a stack for layers that PyTorch compiles: kernels that torchtitan fuses, and the time of a launch.
---
---   stack = stack .. compiled(note, "torch_compile", given)
---
--- Transformers compiles the whole model (trainer.py), whose loss is a part of it. Hooks of FSDP and DeepSpeed and
--- checkpoints of layers break its graph (torch._dynamo), but the graph of a layer remains. Other fields in which the
--- stacks torchtitan and torchtitan_eager differ stay. A loop over experts reads from the device, so the host time and
--- kernels of experts (`moe_launches`, `combine`) remain. So do hooks (`gather_seconds`), overlaps of messages
--- (`overlaps_context`, `overlaps_tensor`, `tensor_launches`) and modules with adapters (`separate_projections`).

---@param note fun(format: string, ...)
---@param name string field of the file
---@param given table plan fields that override the file
---@return string
return function(note, name, given)
  if not given.stack then
    note("%s is modelled as torchtitan's compiled layers: fused norms, rotation, activations and loss, fewer launches",
      name)
  end
  return ":norm=compiled:cross_entropy=compiled:rope=1:gated_mlp=1:adaptive_norm=1:launch_seconds=1.2e-05"
end
