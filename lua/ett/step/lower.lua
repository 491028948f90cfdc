--- Lowering: a model under a plan becomes a step program, the flat arrays that C evaluates.
--
-- One program serves every plan that agrees in the fields marked `program` in ett.plan.fields. The others (pipeline,
-- data parallelism, schedule, recompute, ZeRO) are counted in runtime/step.
local architecture = require "ett.model.architecture"
local autocast = require "ett.operator.autocast"
local cluster_module = require "ett.profile.cluster"
local expert_spread = require "ett.step.expert_spread"
local fields = require "ett.plan.fields"
local frozen = require "ett.step.frozen"
local host_waits = require "ett.step.host_waits"
local losses = require "ett.operator.loss"
local operators = require "ett.operator"
local optimizer = require "ett.operator.optimizer"
local quantised = require "ett.operator.quantised"
local ranks = require "ett.plan.ranks"
local times_module = require "ett.step.times"
local stacks = require "ett.operator.stack"
local network_tiers = require "ett.profile.network.tiers"
local in_step = require "ett.profile.in_step"
local merged = require "ett.base.merged"
local messages = require "ett.step.messages"
local modules = require "ett.operator.modules"
local slices = require "ett.step.slices"
local step_core = require "ett.step"
local schema = require "ett.base.schema"
local shapes = require "ett.operator.shapes"
local table_at = require "ett.base.table_at"

local pack = string.pack

local lower = {}

--- Families whose FLOPs count as model FLOPs: the matrix products. A backward pass counts twice the forward FLOPs, also
--- for attention that recomputes its scores.
local product = operators.products

--- Roles distinguish operations only where all-to-alls are overlapped.
local function role_of(item, p) return p.overlap_all_to_all ~= "none" and item.role or nil end

-- Default fields of an operation. C uses the same defaults.
local nothing = { dense_parameters = 0, expert_parameters = 0, frozen_dense = 0, frozen_expert = 0,
  reused_parameters = 0, quantised_bytes = 0, sharded_bytes = 0, scale_bytes = 0, spared_share = 0,
  matrix_parameters = 0, newton_seconds = 0, largest_newton_seconds = 0,
  activation_bytes = 0, dropped_bytes = 0, late_bytes = 0, working_bytes = 0, weight_working_bytes = 0,
  weight_share = 0, cached_shape = 0, cached_bytes = 0, flops = 0, selective = false, loss = false,
  waits_again = false, never_again = false, role = "outside", beside_seconds = 0, host = "none",
  hides_exchanges = false }

local weights_of = quantised.weights_of

--- Bytes of the quantised weights that software stores for a product, beyond its 16-bit weights; negative if they
--- replace the 16-bit weights. The backward pass reads transposed copies, unless the device's products read any layout
--- of fp8 tensors. A layer without a backward pass has no transposed copies. A stack that keeps a single copy
--- transposes it in each backward pass. Copies of types other than fp8 and fp8_block have scales of their own.
---@param dtype string in which the product runs
local function quantised_bytes(state, item, dtype)
  local how = state.software.quantised_weights
  if how == "none" then return 0 end
  local single = item.frozen == "layer" or dtype == "fp8" and state.times.cluster.device.any_fp8_layout
    or how == "single" and dtype:find "^fp8"
  return weights_of(item.shape) * ((single and 1 or 2) * schema.dtype_bytes[dtype]
    - (how ~= "beside" and state.width or 0))
end

--- Share of the bytes of a product's weights that gathers need not move. If quantised weights replace the 16-bit
--- weights, they are gathered in 8 bits (Megatron-Core, DistributedDataParallel: buffers of uint8). Of fp8 and
--- fp8_block only one copy is gathered; the other is made from it (Transformer Engine, tensor/utils.py,
--- replace_raw_data). The two copies of mxfp8 have scales of their own: Megatron-Core gathers 16 bits
--- (reuse_grad_buf_for_mxfp8_param_ag), Megatron FSDP one copy for each pass.
local function spared_share(state, dtype)
  local how = state.software.quantised_weights
  local narrow = (how == "only" or how == "single")
    and (dtype == "fp8" or dtype == "fp8_block" or dtype == "mxfp8" and state.software.gathers_mxfp8)
  return narrow and 1 - 1 / state.width or 0
end

--- Bytes of a product's weights beyond 16 bits if ZeRO-3 shards weights that are gathered in 8 bits: those of all
--- shards, and those that each rank holds whole. Megatron FSDP shards one copy of fp8 and fp8_block, and two of mxfp8
--- (param_and_grad_buffer.py, _init_each_parameter_group_buffers). Their scales stay whole on each rank (Transformer
--- Engine, tensor/utils.py, _cast_master_weights_to_fp8_mxfp8_scaling).
local function sharded_bytes(state, item, dtype)
  local copies, weights = dtype == "mxfp8" and 2 or 1, weights_of(item.shape)
  return weights * (copies - state.width), weights * copies * (schema.dtype_bytes[dtype] - 1)
end

--- Sets what quantised weights change in the operation of a product in fewer than 16 bits.
local function add_quantised(state, item, operation)
  local dtype = operation.dtype
  operation.quantised_bytes, operation.spared_share = quantised_bytes(state, item, dtype), spared_share(state, dtype)
  if operation.spared_share ~= 0 then
    operation.sharded_bytes, operation.scale_bytes = sharded_bytes(state, item, dtype)
  end
end

--- Sets what frozen weights of 4 or 8 bits change in the operation of their product. Scales are no parameters, so each
--- rank holds them whole (bitsandbytes, Params4bit.quant_state). The product reads a copy of the weights.
local function add_frozen(state, format, operation)
  local weights = weights_of(operation.shape) * state.width
  local stored, scales = quantised.bytes(format, operation.shape)
  operation.quantised_bytes, operation.spared_share = stored + scales - weights, 1 - stored / weights
  operation.sharded_bytes, operation.scale_bytes = stored - weights, scales
  operation.working_bytes = operation.working_bytes + weights
end

--- Share of an operator's backward time that a split schedule may delay: weight gradients. For a product this is one of
--- two equal products; for a lookup it is everything. Norms compute both gradients in one kernel.
local function weight_share(op, parameters)
  if parameters == 0 then return 0 end
  return op.family == "embedding" and 1 or product[op.family] and 0.5 or 0
end

local Operation = { __index = nothing }

-- Time fields of a pass, as in an answer of ett.step.times. A changed time names the original answer in `source`.
local time_names = { "seconds", "low_seconds", "high_seconds" }

--- Adds an operation to the program; returns its index.
local function add(state, operation)
  local index = #state.operations + 1
  state.operations[index] = setmetatable(operation, Operation)
  return index
end

-- The most shapes with a number (ETT_CACHED_SHAPES of runtime/step/program.h).
local cached_shapes = 64

--- The weight-gradient buffer of a shape, which all weights of that shape on a device share: its number, and its bytes
--- if the shape is new.
local function cached_gradient(state, s, bytes)
  local id = ("%s %s"):format(s.out_features, s.in_features)
  if state.cached[id] then return state.cached[id], 0.0 end
  state.cached_count = math.min(state.cached_count + 1, cached_shapes)
  state.cached[id] = state.cached_count
  return state.cached_count, bytes / (s.batch or 1) -- experts share one buffer
end

--- The module with which selective recomputation repeats an item, or nil.
---@param repeated table<string, boolean> the repeated modules
local function repeated_in(repeated, item)
  local outer = modules.within[item.module]
  return repeated[outer] and outer or repeated[item.module] and item.module or nil
end

--- The checkpointed module that repeats item k, or nil; and whether the item is the module's first operator. The first
--- operator stores the module's input; the others store nothing.
local function checkpoint_of(items, k)
  local module = items[k].again
  if not modules.checkpointed[module] then return nil end
  for j = k - 1, 1, -1 do
    local item = items[j]
    if item.kind == "operator" and not item.adapter then return module, item.again ~= module end
  end
  return module, true
end

--- The data type in which an item stores its input. The first item of a checkpointed module stores it in 16 bits.
---@param dtype string in which its operator runs
local function stored_dtype(item, software, dtype)
  return (software.keeps_inputs or item.opens) and schema.wide(dtype) or dtype
end

--- With quantised products: bytes that later operators would store of the output of a recomputed norm or activation.
--- Each product has its own copy (Megatron-Core, set_save_original_input), other operators share 16 bits. nil: all
--- operators store the same bytes.
---@param dtype string of fewer than 16 bits
local function read_bytes(items, k, software, dtype)
  local item = items[k]
  local op = item.operator
  local module = item.again
  if not module or module == "core_attn" or modules.checkpointed[module] or not op.output_bytes then return nil end
  if item.frozen or op.family == "gemm" then return nil end
  local elements, bytes, shared = op.output_bytes(item.shape, "fp8"), 0.0, false
  for j = k + 1, #items do
    local reader = items[j]
    if reader.kind == "operator" then
      if reader.module == "layernorm" then break end
      local first, stores = bytes == 0 and not shared, reader.opens or not reader.checkpoint
      if stores and first and reader.operator.family ~= "gemm" then
        shared = true
      elseif stores and (first or reader.same_input) and reader.operator.family == "gemm"
        and reader.operator.activation_bytes(reader.shape, "fp8") == elements then
        bytes = bytes + reader.operator.activation_bytes(reader.shape,
          stored_dtype(reader, software, stacks.dtype_of(software, reader.operator, dtype)))
      end
      if item.module ~= "layernorm" then break end
    end
  end
  return bytes + (shared and op.output_bytes(item.shape, schema.wide(dtype)) or 0)
end

--- Sets what items of a layer need for selective recomputation: `again` (repeated_in), `checkpoint` and `opens`
--- (checkpoint_of), and `read` (read_bytes).
---@param repeated string[] the repeated modules
local function mark_repeated(items, repeated, software, dtype)
  local of_name, some, narrow = {}, false, schema.dtype_bytes[dtype] < 2
  for i = 1, #repeated do of_name[repeated[i]] = true end
  for k = 1, #items do
    local item = items[k]
    if item.module ~= "" then
      local again = repeated_in(of_name, item)
      item.again, some = again, some or modules.checkpointed[again]
    end
  end
  for k = 1, some and #items or 0 do items[k].checkpoint, items[k].opens = checkpoint_of(items, k) end
  for k = 1, narrow and #items or 0 do
    items[k].read = items[k].kind == "operator" and read_bytes(items, k, software, dtype) or nil
  end
end

--- Bytes that selective recomputation of an operator saves. For the attention core: everything but its input. For a
--- checkpointed module: everything but the input of its first operator. For others: the output, which later operators
--- would store, and what its kernels store beyond the inputs.
---@param module string that repeats the operator
---@param activation number bytes that the item stores without recomputation
---@param dtype string in which the item stores its input
local function dropped_bytes(stack, item, module, activation, dtype)
  local op, s, opens = item.operator, item.shape, item.opens
  if modules.checkpointed[module] and not opens then return activation end
  if module == "core_attn" or opens then
    local input = op.recomputed_bytes and op.recomputed_bytes(s, dtype) or opens and activation or 0
    local output = op.family == "attention" and stack.discards_attention and op.output_bytes
    return math.max(0, activation - input) + (output and output(s, dtype) or 0)
  end
  local inputs = op.family ~= "gemm" and op.activation_bytes and op.activation_bytes(s, dtype) or activation
  return (item.read or op.output_bytes and op.output_bytes(s, dtype) or 0) + math.max(0, activation - inputs)
end

--- Whether an item stores bytes for its backward pass. An input that an earlier operator stores is not stored again.
--- Each quantised product has its own quantised input. Under autocast each has its own 16-bit input.
---@param dtype string in which the item stores its input
local function stores(op, item, dtype)
  if not (frozen.keeps(item) and op.activation_bytes) then return false end
  return item.casts or not (item.same_input and (op.family ~= "gemm" or schema.dtype_bytes[dtype] >= 2))
end

-- Collectives whose outputs selective checkpointing by operator stores, and the share of their bytes that a rank gets.
local stored_outputs = { reduce_scatter = function(item) return 1 / item.degree end,
  all_to_all = function() return 1 end }

--- Bytes of an attention operator's output and of its fp32 statistics.
local function attention_output(s, width)
  return (s.batch + 0.0) * s.heads * s.seq_q * (width * (s.value_dim or s.head_dim) + 4)
end

--- PyTorch's selective checkpointing by operator stores the outputs of attention, of every second product in the order
--- of execution, of reduce-scatters and of all-to-alls. It repeats the rest. Grouped products of experts are not
--- counted as products, and they are repeated. (torchtitan, distributed/activation_checkpoint.py and
--- models/deepseek_v3/infra/parallelize.py: _op_sac_save_list has aten.mm, not aten._grouped_mm. Until 2026 the list of
--- models/qwen3 had no all-to-alls: repeats_exchanges.)
---@param software table stack
---@return number bytes of the stored outputs
---@return number[] the share of each item that is repeated
local function checkpointed(items, c, software)
  local bytes, products, width, repeated = 0.0, 0, schema.dtype_bytes[schema.wide(c.dtype)], {}
  for k, item in ipairs(items) do
    local op, s = item.operator, item.shape
    repeated[k] = item.last and 0 or 1
    local share = item.kind ~= "operator" and item.pass ~= "backward" and stored_outputs[item.name]
    if item.role == "exchange" and software.repeats_exchanges then share = nil end
    if share then
      bytes, repeated[k] = bytes + item.times * item.bytes * share(item), 0
    elseif op and op.family == "attention" then
      bytes, repeated[k] = bytes + attention_output(s, width), 0
    elseif op and op.family == "gemm" and not op.experts then
      local parts, sum, stored = op.parts and op.parts(c) or {}, 0, 0
      for _, part in ipairs(parts) do sum = sum + part end
      for _, part in ipairs(sum == s.out_features and parts or { s.out_features }) do
        products = products + 1
        if products % 2 == 1 then stored = stored + part end
      end
      bytes = bytes + width * (s.batch or 1) * (s.tokens + 0.0) * stored
      repeated[k] = item.last and 0 or 1 - stored / s.out_features
    end
  end
  return bytes, repeated
end

--- Whether collective k gathers the operand of a stored operator, and the backward pass gathers this operand anyway.
local function gathers_operand(items, k, kept)
  local item, again = items[k], false
  if item.name ~= "all_gather" then return false end
  for j = k + 1, #items do
    local o = items[j]
    if o.kind == "operator" then
      local also = items[j + 1] -- a second reader of the operand
      return again and kept[o.operator] and not (also and also.same_input and not kept[also.operator])
    end
    again = again or o.name == "all_gather" and o.pass == "backward" and o.group == item.group
  end
  return false
end

-- Sums of a product over ranks.
local summing = { all_reduce = true, reduce_scatter = true }

--- If the plan names the operators whose outputs are stored (JAX: a policy of names): the results of `checkpointed`.
--- Attention stores its statistics too (JAX, splash_attention_kernel.py, residual_checkpoint_name). A last product that
--- is never repeated stores nothing. A product is stored after the sum over its ranks (MaxText, moe.py, sparse_matmul:
--- psum_scatter before checkpoint_name), so this sum is not repeated. A named tensor is stored, but all is repeated: it
--- is a norm's output, and the backward pass of the norm needs its input again.
local function kept_outputs(items, keeps, dtype)
  local bytes, kept, repeated = 0.0, {}, {}
  local wide, summed, own = schema.wide(dtype), false, 0.0 -- of the operator before a collective
  for _, name in ipairs(keeps) do kept[operators.find(name) or name] = true end
  for k, item in ipairs(items) do
    local op = item.operator
    repeated[k] = 1
    if item.kind == "operator" then
      local stored = kept[op] and not item.last
      if stored or item.last then repeated[k] = 0 end
      own = not (stored or kept[item.tensor]) and 0.0 or item.times * (op.family == "attention"
        and attention_output(item.shape, schema.dtype_bytes[wide]) or op.output_bytes(item.shape, wide))
      bytes, summed = bytes + own, op.family == "gemm" and repeated[k] == 0
    elseif item.pass == "forward"
      and (item.last or summed and summing[item.name] or gathers_operand(items, k, kept)) then
      repeated[k] = 0
      if item.name == "reduce_scatter" then bytes = bytes - own * (1 - 1 / item.degree) end
    end
  end
  return bytes, repeated
end

--- Share of the rows of experts' products that balanced routing would give to a rank. The other rows are padding and
--- the excess of the busiest rank. 1 for other operators.
local function routed_share(item, c)
  local s = item.shape
  if not item.operator.experts then return 1 end
  return item.copies and s.batch and s.tokens and c.expert_kept * item.copies / (s.batch * s.tokens)
    or c.expert_kept / c.expert_load
end

--- What the operations of an operator have in common, whatever their shapes, if layers run it in the same way.
local function way_of(state, item)
  local op, p, stack, again = item.operator, state.plan, state.software, item.again
  local dtype = stacks.dtype_of(stack, op, p.dtype)
  local stored, keeps, passes = stored_dtype(item, stack, dtype), frozen.keeps(item), frozen.flops(item)
  return { dtype = dtype, stored = stored, keeps = again and keeps, stores = stores(op, item, stored),
    selective = again ~= nil, waits_again = again == "moe", never_again = item.last or false,
    loss = op.family == "cross_entropy", role = role_of(item, p),
    -- Weights of experts differ between expert-parallel ranks.
    weights = item.frozen and (op.experts and "frozen_expert" or "frozen_dense")
      or op.experts and "expert_parameters" or "dense_parameters",
    passes = passes, forward_share = 1 / passes, is_product = product[op.family],
    is_quantised = op.family == "gemm" and not op.reused_parameters and schema.dtype_bytes[dtype] < 2 }
end

--- Weights of an earlier run that a run reuses.
local function reused_parameters(op, s) return op.reused_parameters and op.reused_parameters(s) or 0 end

--- The times of an item in both passes, and the launches of the second. A head that runs in chunks (`chunk` of the
--- operator) takes the time of all chunks. Their gradients count as the backward pass, though Liger computes them in
--- the forward pass.
---@return table forward, table? backward, integer launches of a chunk, table? part shape of a chunk, integer? chunks
local function times_of(state, item)
  local op, p, stack = item.operator, state.plan, state.software
  local part, count
  if op.chunk then part, count = op.chunk(item.shape, stack) end
  if not part then
    return state.times:operator(op, item.shape, p.dtype, "forward", item.key),
      frozen.backward(state.times, item, p, item.key, stack)
  end
  local function whole(answer)
    local sum = answer and { source = answer.source or answer }
    for _, name in ipairs(answer and time_names or {}) do sum[name] = count * answer[name] end
    return sum
  end
  local backward, launches = frozen.backward(state.times, merged(item, { shape = part }), p, nil, stack)
  return whole(state.times:operator(op, part, p.dtype, "forward")), whole(backward), launches, part, count
end

-- The shape of a matrix that tensor ranks share, before they split it.
local function whole_matrix(matrix, region, ranks_of_group)
  return { rows = region == "enter" and matrix.rows * ranks_of_group or matrix.rows,
    cols = region == "leave" and matrix.cols * ranks_of_group or matrix.cols, count = matrix.count }
end

--- Sets what Muon does with the weights of an operation. Products have 16 bits, in any data type of the plan.
local function add_newton(state, item, operation)
  local p, op = state.plan, item.operator
  if p.optimizer ~= "muon" or item.frozen then return end
  local parts, group = op.parts and op.parts(item.configuration), op.experts and (p.etp or p.tp) or p.tp
  local gathers = p.muon_tensor == "duplicated" and group > 1 and (op.region == "enter" or op.region == "leave")
  local gemm, residual = operators.get "linear_column", operators.get "residual_add"
  local function timed(of, shape)
    local answer = state.times:operator(of, shape, "bf16", "forward")
    state.newton.provenance = times_module.worse(state.newton.provenance, answer.provenance)
    return answer.seconds
  end
  local function product_of(m, k, n) return timed(gemm, { tokens = m, in_features = k, out_features = n }) end
  local function stream(elements)
    return timed(residual, { tokens = math.max(1, math.ceil(elements / state.hidden)), hidden = state.hidden })
  end
  local seconds, largest, parameters = 0.0, 0.0, 0
  for _, matrix in ipairs(optimizer.matrices(op, operation.shape, parts)) do
    parameters = parameters + matrix.count * matrix.rows * matrix.cols
    local whole = gathers and whole_matrix(matrix, op.region, group) or matrix
    local one = optimizer.newton_seconds(whole, p.muon_steps, product_of, stream)
    if gathers then
      one = one + state.times:collective("all_gather", 2.0 * whole.rows * whole.cols,
        messages.topology(state, op.experts and group ~= p.tp and "etp" or "tp", false), "bf16").seconds
    end
    seconds, largest = seconds + matrix.count * one, math.max(largest, one)
  end
  operation.matrix_parameters, operation.newton_seconds, operation.largest_newton_seconds = parameters, seconds, largest
end

--- The operation of an item: times, bytes and FLOPs of one run of its operator.
---@param way table of way_of
---@param gradient number bytes of the weight gradient during the run
local function operation_of(state, item, way, parameters, gradient)
  local op, p, s, again, dtype = item.operator, state.plan, item.shape, item.again, way.dtype
  local stack = state.software
  local forward, backward, launches, part, chunks = times_of(state, item)
  local activation = way.stores and op.activation_bytes(s, way.stored, stack, item.frozen) or 0
  -- An input that another product stores is one tensor.
  if item.inputs and not item.same_input then activation = item.inputs * op.activation_bytes(s, way.stored, stack) end
  local reused = item.frozen and 0 or reused_parameters(op, s)
  if state.casts and frozen.keeps(item) then
    activation = activation + state.casts.stored(item, activation, stack)
  end
  local dropped = way.keeps and dropped_bytes(stack, item, again, activation, way.stored) or 0
  local operation = {
    name = op.name, operator = op, kind = "operator", family = op.family, experts = op.experts, shape = s,
    dtype = dtype, selective = way.selective, waits_again = way.waits_again, never_again = way.never_again,
    loss = way.loss, role = way.role,
    forward = forward, backward = backward, backward_launches = launches, chunks = chunks, [way.weights] = parameters,
    activation_bytes = activation,
    working_bytes = (backward and op.working_bytes
      and op.working_bytes(s, quantised.fp32_norms.is_wide(item) and "fp32" or dtype, stack) or 0)
      + (part and losses.working_bytes(part, state.width, item.frozen) or 0),
    reused_parameters = reused, weight_working_bytes = gradient,
    weight_share = item.frozen and 0 or weight_share(op, parameters + reused),
    dropped_bytes = dropped,
    -- Weight gradients need the inputs of products and the gradients of their outputs (WeightGradStore.put of
    -- sail-sg/zero-bubble-pipeline-parallelism). These gradients are as large as other stored tensors that are freed:
    -- inputs of norms, queries, keys, values, gates. So a layer holds all bytes but those of the attention's core.
    late_bytes = again == "core_attn" and math.max(0, activation - dropped) or activation,
    forward_share = way.forward_share,
    flops = way.is_product and way.passes * (item.model_flops or op.flops(s, "forward"))
      * routed_share(item, state.configuration) or 0,
  }
  if way.is_quantised then add_quantised(state, item, operation) end
  local format = frozen.format(item, p)
  if format then add_frozen(state, format, operation) end
  add_newton(state, item, operation)
  return operation
end

--- Whether layers of a model read the embedding's table besides the embedding: with several stages, they have a copy.
function lower.copies_table(model)
  if model.hyper.tied_embeddings then return true end
  for _, layer in ipairs(model.layers) do
    for _, entry in ipairs(layer.ops) do
      local op = entry.op and operators.get(entry.op)
      if op and op.family == "embedding" and op.schema.tied then return true end
    end
  end
  return false
end

--- Weights of an operator. In a pipeline, a tied head and the lookups of multi-token prediction have a copy of the
--- embedding's table. C removes it where the stage has the table already (find_tied in runtime/step/step.c).
local function parameters_of(state, op, s)
  if not op.parameters then return 0 end
  if not (s.tied and state.plan.pp > 1) then return op.parameters(s) end
  local own = merged(s)
  own.tied = nil
  return op.parameters(own)
end

--- Key of an item among the operations of its operator, and the key of its way_of. Items with equal keys share one
--- operation of the program.
local function id_of_operator(state, item)
  local key = item.key or times_module.shape_key(item.operator, item.shape)
  item.key = key
  if item.casts then key = ("%s a%d"):format(key, item.casts) end
  if item.wide then key = key .. " w" end
  if item.model_flops then key = ("%s m%.17g"):format(key, item.model_flops) end
  local again, role = item.again, role_of(item, state.plan)
  if not (again or role or item.last or item.frozen or item.same_input) then return key, "" end
  local way = " " .. (again or "") .. (item.opens and " o " or " ") .. (role or "") .. (item.last and " l " or " ")
    .. (item.same_input and "s " or "") .. (item.attended and "a " or "") .. (item.frozen or "")
  return key .. way .. (item.read or ""), way
end

--- Programs of one data type share an operation if it depends on nothing else than its shape, its routed share of the
--- rows, and the buffer of its weight gradient. Muon's iterations also depend on the ranks that gather a matrix.
---@return table<string, table>? known operations of the operator by key; nil: the operation is not shared
---@return string? key
---@return integer? shape, number? bytes of cached_gradient
local function known_of(state, item, id, place)
  local op, s, shape, bytes = item.operator, item.shape, nil, nil
  if state.shares_gradients and op.family == "gemm" and slices.is_repeated_place[place] and not item.frozen then
    local weights = parameters_of(state, op, s) + reused_parameters(op, s)
    shape, bytes = cached_gradient(state, s, (weights + 0.0) * state.width)
    id = ("%s c%d %s"):format(id, shape, bytes > 0)
  end
  if item.frozen or s.tied or state.plan.optimizer == "muon" then return nil, nil, shape, bytes end
  local share = routed_share(item, state.configuration)
  if share ~= 1 then id = ("%s r%.17g"):format(id, share) end
  local known = state.known[op]
  if not known then
    known = setmetatable({}, { __mode = "v" })
    state.known[op] = known
  end
  return known, id, shape, bytes
end

local function add_operator(state, item, place)
  local op, id, way = item.operator, id_of_operator(state, item)
  local indexes = state.index[op]
  local index = indexes and indexes[id]
  if index then return index end
  local known, key, shape, bytes = known_of(state, item, id, place)
  local operation = known and known[key]
  if not operation then
    local s = item.shape
    local parameters = parameters_of(state, op, s)
    local gradient = not shape and (op.family == "gemm" or op.family == "embedding") and not item.frozen
      and (parameters + reused_parameters(op, s) + 0.0) * state.width or 0
    local ways = table_at(state.ways, op)
    local of_way = ways[way]
    if not of_way then
      of_way = way_of(state, item)
      ways[way] = of_way
    end
    operation = operation_of(state, item, of_way, parameters, gradient)
    if shape then operation.cached_shape, operation.cached_bytes = shape, bytes end
    if known then known[key] = operation end
  end
  index = add(state, operation)
  if indexes then indexes[id] = index else state.index[op] = { [id] = index } end
  return index
end

--- Marks what a recomputed layer leaves out: all behind the last operator that stores a tensor. Of a dense layer these
--- are the last residual addition, the sum over the ranks before it, and the product itself, whose input is stored.
--- PyTorch's checkpoint stops there (torch.utils.checkpoint, early_stop; from PyTorch 2.1 on). Reentrant ones, such as
--- Megatron-LM's, run the layer to its end (tensor_parallel/random.py, CheckpointFunction.backward).
---
--- Combining the experts needs their outputs, unless the router's weights are applied to the activations. Then the
--- all-to-all that returns the outputs is not repeated, either. The experts' products are repeated: custom functions
--- run before they store their inputs (torch.autograd.Function).
local function mark_last(items, stack)
  local experts = false
  for _, item in ipairs(items) do experts = experts or item.operator and item.operator.experts ~= nil end
  for k = #items, 1, -1 do
    local item = items[k]
    local op = item.operator
    if op and op.family == "gemm" then
      item.last = not experts
      local before = items[k - 1]
      if before and before.name == "dequantise" then before.last = item.last end
      return
    elseif experts and stack.weighs_activations and (op and op.family == "router" or item.group == "ep") then
      item.last = not op and item.pass == "forward"
    elseif op and not (op.residual and op.activation_bytes(item.shape, "bf16") == 0) or not op and experts then
      return
    elseif op or item.pass == "forward" then
      item.last = true
    end
  end
end

--- Marks the lookup of a layer of multi-token prediction, and the collectives behind it: recomputation begins after
--- them (Megatron-Core, multi_token_prediction.py: _get_embeddings precedes _checkpointed_forward).
local function mark_lookup(items)
  local lookup = false
  for _, item in ipairs(items) do
    if item.operator then lookup = item.operator.family == "embedding" end
    item.last = lookup
  end
end

--- A collective as text, without its bytes and the seconds that it overlaps.
---@param whole boolean? as for add_collective
local function id_of_collective(state, item, whole)
  return item.name .. " " .. (item.members or item.group) .. " " .. item.degree .. " " .. item.pass .. " "
    .. (role_of(item, state.plan) or "") .. (item.overlapped and " overlapped" or "") .. (whole and " whole" or "")
    .. (item.again and " again" or "") .. (item.last and " last" or "")
end

--- Adds collective i of a list of items.
---@param hides number seconds of the product that overlaps the collective; 0: none
---@param whole boolean? the whole collective may overlap, not only chunks of it
---@param late number? seconds of that product in a split backward pass, if fewer
local function add_collective(state, items, i, hides, whole, late)
  local item, m = items[i], messages.of(state, items, i)
  local known, key = table_at(state.index, id_of_collective(state, item, whole)), m.bytes
  if hides ~= 0 or late then known, key = table_at(table_at(table_at(known, "beside"), key), hides), late or hides end
  local index = known[key]
  if index then return index end
  local answer = messages.time(state, item, m)
  local time, hidden, split = answer, 0, nil
  if hides > 0 and answer.seconds > 0 then
    hidden = messages.hidden_seconds(state, item, answer, hides, whole)
    local share = 1 - hidden / answer.seconds
    time = { source = answer }
    for _, name in ipairs(time_names) do
      time[name] = item.overlapped and math.max(0, answer[name] - hidden) or answer[name] * share
    end
    local exposed = late and hidden - messages.hidden_seconds(state, item, answer, late, whole) or 0
    if exposed > 0 then
      split = {}
      for _, name in ipairs(time_names) do split[name] = answer[name] * exposed / answer.seconds end
    end
  end
  local copy = messages.copy_seconds(state, item, m.bytes, hides > 0)
  if copy > 0 then
    time = merged(time)
    for _, name in ipairs(time_names) do time[name] = time[name] + copy end
  end
  local link, lanes = network_tiers.lane(state.times.cluster, item.name, m.links)
  index = add(state, {
    name = item.name, kind = "collective", group = item.group, members = m.members, degree = item.degree,
    bytes = m.bytes, quantised = m.quantised or nil, topology = m.topology, overlapped = hidden > 0,
    selective = item.again ~= nil, waits_again = item.again == "moe", never_again = item.last or false,
    role = role_of(item, state.plan), link = link, lanes = lanes, beside_seconds = hidden, split = split,
    beside_later = messages.overlaps_next(item) == (item.pass == "forward"),
    forward = item.pass == "forward" and time or nil, backward = item.pass == "backward" and time or nil,
  })
  known[key] = index
  return index
end

--- Under scatter_sends a stage gathers the received activations over its tensor-parallel ranks before its pass. Under
--- sequence parallelism the layers gather them. DeepSpeed's stages also partition their output, and gather it for the
--- backward pass (PipelineEngine._exec_backward_pass).
---@return number index of the operation; 0: nothing is gathered
local function add_gather(state, bytes)
  local p = state.plan
  if not fields.sends_of(p, "scatter_sends") or p.sequence_parallel or p.tp == 1 then return 0 end
  local topology = messages.topology(state, "tp", false)
  local answer = state.times:collective("all_gather", bytes, topology, p.dtype)
  local backward, gathers = { source = answer }, fields.sends_of(p, "serial_sends") and 2 or 1
  for _, name in ipairs(time_names) do backward[name] = gathers * answer[name] end
  local link, lanes = network_tiers.lane(state.times.cluster, "all_gather", topology)
  return add(state, { name = "all_gather", kind = "collective", group = "tp", degree = p.tp, bytes = bytes,
    topology = topology, link = link, lanes = lanes, forward = answer, backward = backward })
end

--- Adds an operation that moves bytes. It takes as long as a residual addition that moves the same bytes: `timed_as`,
--- with the shape in each pass (ett.step.energy).
---@param bytes table<string, number> of each pass: forward, backward; nil: it does not run in that pass
---@param given table fields of the operation
local function add_moving(state, bytes, given)
  local op, dtype, operation = operators.get "residual_add", state.plan.dtype, merged(given)
  operation.kind, operation.family, operation.timed_as = "operator", op.family, { operator = op }
  for _, pass in ipairs { "backward", "forward" } do
    local tokens = (bytes[pass] or 0.0) / (3 * schema.wide_bytes(dtype) * state.hidden)
    if bytes[pass] then
      operation.shape = { tokens = math.max(1, math.floor(tokens + 0.5)), hidden = state.hidden }
      operation[pass] = state.times:operator(op, operation.shape, dtype, pass)
      operation.timed_as[pass] = operation.shape
    end
  end
  return add(state, operation)
end

--- What casts tensors between fp32 and 16 bits: ett.operator.autocast, or fp32_norms or fp32_adapters of
--- ett.operator.quantised; nil: nothing does.
local function casts_of(software, p)
  if software.autocast then return autocast end
  if quantised.format_of(p) then return software.fp32_norms and quantised.fp32_norms or nil end
  return quantised.casts_adapters(p, software) and quantised.fp32_adapters or nil
end

--- Adds what casts move in a layer beside the operators.
local function add_casts(state, items, uses)
  local moved, stack, casts = { forward = 0.0, backward = 0.0 }, state.software, state.casts
  for _, item in ipairs(items) do
    for pass, bytes in pairs(item.kind == "operator" and moved or {}) do
      local runs = pass == "forward" or casts ~= autocast or frozen.keeps(item)
      moved[pass] = bytes + (runs and item.times * casts.moved(item, pass, stack) or 0.0)
    end
  end
  if moved.forward <= 0 then return end
  if moved.backward <= 0 then moved.backward = nil end
  uses[add_moving(state, moved, { name = casts.name, launches = casts.launches(stack) })] = 1
end

--- Adds the accumulation of a micro-batch's gradients. A separate kernel reads two operands and writes one. Weight
--- products that accumulate read and write the sum of gradients; others write a gradient in 16 bits. A share of the
--- additional bytes hides behind the arithmetic. Gradients that are reduced in each backward pass are copied to the
--- message instead, in its type (PyTorch, foreach_reduce_scatter_copy_in; DeepSpeed, stage3.py,
--- __add_grad_to_ipg_bucket, and stage_1_and_2.py, reduce_independent_p_g_buckets_and_remove_grads; JAX casts them).
--- Sums of shards follow the reduction, from the second micro-batch on (foreach_reduce; partition_grads;
--- independent_gradient_partition_epilogue). They are not counted.
local function add_accumulation(state, uses)
  local p, fused = state.plan, fields.fuses_accumulation(state.plan, state.software)
  local stack = state.times.stack
  if fused and not (stack and stack.fused_accumulation) then return end
  local weight = stack and stack.autocast and 4 or schema.wide_bytes(p.dtype)
  local gradient, parameters = schema.dtype_bytes[p.gradient_dtype], 0.0
  local message = (fields.sharded_gradients(p) or ""):match " sharded (.*)"
  local bytes = fused and in_step.accumulation_share * (2 * gradient - weight)
    or weight + (message and schema.dtype_bytes[message] or 2 * gradient)
  for index, n in pairs(uses) do
    local o = state.operations[index]
    if o.kind == "operator" and (not fused or o.family == "gemm") then
      parameters = parameters + n * (o.dense_parameters + o.expert_parameters + o.reused_parameters)
    end
  end
  local moved = parameters * bytes
  if moved <= 0 then return end
  -- Programs that differ in micro-batch share the operation.
  local known = table_at(table_at(state.known, "gradient_accumulation"), operators.get "residual_add")
  local key = pack("ndB", state.hidden, moved, fused and 1 or 0)
  if known[key] then
    uses[add(state, known[key])] = 1
    return
  end
  local index = add_moving(state, { backward = moved }, { name = "gradient_accumulation", role = "alone",
    weight_share = 1, backward_launches = fused and 0 or nil })
  known[key], uses[index] = state.operations[index], 1
end

--- Adds what heads that run in chunks move to add up the gradients of their weights (ett.operator.loss). Two kernels
--- serve each chunk: a cast and a sum.
local function add_chunk_sums(state, items, uses)
  local moved, sums = 0.0, 0
  for _, item in ipairs(items) do
    local op = item.operator
    local part, count
    if op and op.chunk and not item.frozen then part, count = op.chunk(item.shape, state.software) end
    if part then
      sums = sums + item.times * count
      moved = moved + item.times * count * losses.accumulated_bytes * part.in_features * part.out_features
    end
  end
  if moved <= 0 then return end
  uses[add_moving(state, { backward = moved }, { name = "gradient_accumulation", role = "alone", weight_share = 1,
    backward_launches = 2 * sums })] = 1
end

--- Whether blocks of `block` ranks align with the units of every tier, and with their cards.
local function aligned(tiers, block)
  for i = 1, #tiers do
    local size = tiers[i]
    if size ~= math.maxinteger and block % size ~= 0 and size % block ~= 0 then return false end
  end
  return true
end

--- Cache key of a plan's program as text, and whether the key contains pp and dp. It contains them in these cases:
---   groups are not aligned with nodes, so their placement differs between stages
---   the rank order puts stages between groups
---   the plan uses a part of a torus, so the number of devices decides the lengths of its axes
---@param placement table of ett.profile.cluster
---@param key_of function of fields.program_keys
function lower.key(p, placement, key_of)
  local key = key_of(p)
  local etp, tiers = p.etp or p.tp, placement.tiers
  local whole = not placement.torus or p.tp * p.cp * p.pp * p.dp >= tiers[1]
  if whole and ranks.inner(p.rank_order) ~= p.rank_order and not p.rank_map and aligned(tiers, p.tp)
    and (p.cp == 1 or aligned(tiers, p.tp * p.cp)) and (etp == p.tp or aligned(tiers, etp))
    and aligned(tiers, etp * p.ep) then
    return key, false
  end
  return ("%s %d %d %s"):format(key, p.pp, p.dp, p.rank_order), true
end

-- What lowering keeps between programs; it belongs to `times`. `operations`: by data type, operator and key
-- (id_of_operator); `ways`: by data type, operator and key of way_of; `placement` of the cluster; whether its
-- reductions block.
local function kept_of(times)
  local kept = rawget(times, "lowered") -- a view of times has its own
  if not kept then
    kept = { operations = {}, ways = {}, placement = cluster_module.placement(times.cluster),
      blocking_reductions = network_tiers.of(times.cluster)[1].blocking_reductions ~= nil }
    rawset(times, "lowered", kept)
  end
  return kept
end

-- Fields of a plan that a configuration and the items of layers depend on.
local item_fields = { "micro_batch", "tp", "seq", "cp", "cp_method", "cp_balanced", "cp_ulysses", "ep", "etp",
  "expert_skew", "expert_shares", "capacity_factor", "pad_to_capacity", "sequence_parallel", "dtype", "lora_rank",
  "lora_targets", "lora_dropout", "frozen_layers", "frozen_weights", "recompute_modules", "recompute_layer_ids" }

--- An item of the last layer under keeps_head_input: the head stores its whole input; the gather that would repeat this
--- input is left out (nil).
local function with_head_input(item)
  if item.operator and item.operator.unquantised then
    local own = merged(item, { shape = merged(item.shape) })
    own.shape.stored_tokens, own.key = nil, nil
    return own
  end
  local again = item.overlapped and item.name == "all_gather" and item.group == "tp" and not item.operand
  return not again and item or nil
end

--- The items of a layer under a configuration, without operators whose work is inside another kernel of the stack.
---@param stack table the software
function lower.items(layer, c, p, stack)
  local list = frozen.items(architecture.operations(layer, c), layer.frozen, p, layer.frozen_table,
    c, stack)
  local count, kept, changes = #list, 0, stack.keeps_head_input
  for k = 1, count do
    local item = list[k]
    local op = item.operator
    if changes then item = with_head_input(item) end
    if item and not (op and op.inside and op.inside(item.shape, stack)) then
      kept = kept + 1
      list[kept] = item
    end
  end
  for k = kept + 1, count do list[k] = nil end
  return list
end

-- The stack that runs a step; by default `plain`, read once. The fused loss of `plain` has a time only in kernel
-- tables. Samples and rates of a device are for a loss that stores fp32 probabilities, as in Megatron-LM
-- (operators/cross_entropy.lua).
local function software_of(times)
  if times.stack then return times.stack end
  if not times.lowered.plain then
    local profile = times.profile
    local tables = profile and profile.tables_used and profile:tables_used() == "all"
    times.lowered.plain = merged(stacks.get(), { cross_entropy = not tables and "megatron" or nil })
  end
  return times.lowered.plain
end

--- Bytes of logits that the program's variables hold until the backward pass ends, over the bytes that the loss stores.
--- If the loss stores the logits themselves, both are one tensor.
local function kept_logits(p, software)
  if software.kept_logits == 0 or losses.kernels[software.cross_entropy] then return 0 end
  local loss, one = operators.get "cross_entropy", { tokens = 1, vocab = 1 }
  local stored = loss.activation_bytes(one, p.dtype, software)
  local shared = loss.stores_logits and loss.stores_logits(one, software) and stored or 0
  return math.max(0, software.kept_logits - shared) / stored
end

--- The layers of a model under a plan: the kinds of its program. Layers that are frozen or repeated in part are split.
function lower.model_layers(model, p) return slices.listed(frozen.layers(model.layers, p), p.recompute_layer_ids) end

local function is_for(known, model, generation, p)
  if not (known and known.model == model and known.generation == generation) then return false end
  for i = 1, #item_fields do
    if known[i] ~= p[item_fields[i]] then return false end
  end
  return true
end

-- The configuration of a plan, its layers, and the items of each layer. The last two results are cached in `times`,
-- because consecutive plans of a search often agree in item_fields. An estimate lowers its plan with other values of
-- one field after the other.
local function items_of(model, p, times)
  local before, generation = times.lowered.before, operators.generation()
  local known = is_for(before, model, generation, p) and before
    or before and is_for(before.before, model, generation, p) and before.before
  if known then return known.configuration, known.layers, known.items end
  local c = architecture.configuration(model.hyper, p)
  c.expert_load, c.expert_kept = expert_spread.load(model.hyper, p)
  local layers, items, software = lower.model_layers(model, p), {}, software_of(times)
  c.cp_method = fields.context_method(p, software)
  c.context_parallel, c.repeated_keys = software.context_parallel, software.repeated_keys
  c.exposes_context = not software.overlaps_context or nil
  c.mask_capacity = software.one_hot_experts ~= "none" and p.pad_to_capacity and p.capacity_factor or nil
  c.mask_sequences = software.one_hot_experts == "micro_batch" and p.micro_batch or 1
  c.loops_experts = software.grouped == "loop" or nil
  c.gathers_biases = software.gathers_biases and not c.mask_capacity or nil
  c.combine = software.combine
  c.separate_gates = stacks.separates_gates(software) or nil
  for _, name in ipairs { "one_hot_embedding", "joins_heads", "repeats_tokens", "separate_projections",
    "pads_copies" } do
    c[name] = software[name] or nil
  end
  local of_ops = {} -- items of layers that share a list of entries
  for i, layer in ipairs(layers) do
    local shared = table_at(of_ops, layer.frozen or "")
    if not shared[layer.ops] then
      shared[layer.ops] = lower.items(layer, c, p, software)
      if software.stops_early then mark_last(shared[layer.ops], software) end
      local casts = casts_of(software, p)
      if casts then casts.mark(shared[layer.ops], c, software) end
      if layer.place == "prediction" then mark_lookup(shared[layer.ops]) end
      mark_repeated(shared[layer.ops], p.recompute_modules or fields.recompute_modules, software, p.dtype)
    end
    items[i] = shared[layer.ops]
  end
  if before then before.before = nil end
  local now = { model = model, generation = generation, configuration = c, layers = layers, items = items,
    before = before }
  for i = 1, #item_fields do now[i] = p[item_fields[i]] end
  times.lowered.before = now
  return c, layers, items
end

-- The operations of one layer: `uses` maps an operation's index to its number of runs, `policy_uses` to those that
-- recompute=policy repeats (nil: half of all); `order` lists { index, times }; `remade_bytes` are the bytes that the
-- largest checkpointed module makes again; `outside_bytes` are stored by a lookup before the repeated part;
-- copies_table: whether the weights contain a copy of the embedding's table.
local function run_of(state, items, place)
  local operations, tensors = state.operations, state.tensors
  local uses, order, policy_uses, policy_bytes, repeated = {}, {}, nil, 0.0, nil
  local most, remade, moe, outside, copies_table = 0.0, 0.0, {}, 0.0, false
  local keeps = state.plan.recompute_keeps
  if (keeps or state.software.operator_policy) and place == "middle" then
    if keeps then
      policy_bytes, repeated = kept_outputs(items, keeps, state.plan.dtype)
    else
      policy_bytes, repeated = checkpointed(items, state.configuration, state.software)
    end
    policy_uses = {}
  end
  local is_middle, is_repeated = place == "middle", slices.is_repeated_place[place]
  for k = 1, #items do
    local item = items[k]
    local times, shape = item.times, item.shape
    local index
    if item.kind == "operator" then
      index = add_operator(state, item, place)
    else
      index = add_collective(state, items, k, messages.beside_product(state, items, k))
    end
    uses[index] = (uses[index] or 0) + times
    local operation = operations[index]
    if shape and shape.tied and operation.dense_parameters + operation.frozen_dense > 0 then
      copies_table = state.plan.pp > 1
    end
    if place == "prediction" and item.last then outside = outside + times * operation.activation_bytes end
    if is_repeated and item.again == "moe" and item.frozen ~= "layer" then moe[index] = (moe[index] or 0) + times end
    if policy_uses then policy_uses[index] = (policy_uses[index] or 0) + repeated[k] * times end
    order[k] = { index, times }
    if is_middle and item.tensor then tensors[item.tensor] = true end
    if item.checkpoint then
      remade = (item.opens and 0.0 or remade) + times * operation.dropped_bytes
      most = math.max(most, remade)
    end
  end
  if state.casts then add_casts(state, items, uses) end
  add_accumulation(state, uses)
  add_chunk_sums(state, items, uses)
  for _, wait in ipairs(host_waits.of_layer(state, uses, moe, order)) do uses[add(state, wait)] = 1 end
  return { uses = uses, order = order, policy_uses = policy_uses, policy_bytes = policy_bytes, remade_bytes = most,
    outside_bytes = outside, copies_table = copies_table }
end

-- The lowered model for devices of one kind, its description for C, and the groups of which it has the placement.
local function describe(model, p, times, placed)
  local kept = kept_of(times)
  local c, layers, items_of_layers = items_of(model, p, times)
  local state = { plan = p, configuration = c, times = times,
    ranks = placed, index = {}, operations = {},
    topologies = {}, send_topologies = {}, groups = {}, newton = {},
    known = table_at(kept.operations, p.dtype),
    ways = table_at(kept.ways, p.dtype), hidden = model.hyper.hidden, cached = {}, cached_count = 0,
    shares_gradients = times.stack and times.stack.cached_gradients and fields.fuses_accumulation(p, times.stack),
    tensors = {}, width = schema.wide_bytes(p.dtype), software = software_of(times) }
  state.casts = casts_of(state.software, p)
  local width = state.width
  local tokens = p.micro_batch * p.seq // p.cp
  -- Bytes of the residual stream of a micro-batch.
  local stream_bytes = (tokens + 0.0) * model.hyper.hidden
    * (state.casts and state.casts ~= quantised.fp32_adapters and 4 or width)
  local shared = p.sequence_parallel and stream_bytes / p.tp or stream_bytes
  local kinds, runs, sent, owner, copied = {}, {}, 1, architecture.table_layer(layers), false
  local casts = 0.0
  for i, layer in ipairs(layers) do
    local place = layer.place or "middle"
    local input = (layer.reads and layer.reads(c) / c.seq or sent) * shared
    local boundary = layer.sends and layer.sends(c) / c.seq or 1
    if boundary > 0 then sent = boundary end
    local run = table_at(runs, place)[items_of_layers[i]]
    if not run then
      run = run_of(state, items_of_layers[i], place)
      runs[place][items_of_layers[i]] = run
    end
    kinds[i] = { name = layer.name, place = place, count = layer.count,
      input_bytes = layer.frozen == "layer" and 0 or input + run.outside_bytes,
      policy_bytes = run.policy_uses and not layer.frozen and input + run.policy_bytes or 0,
      policy_uses = run.policy_uses,
      remade_bytes = run.remade_bytes,
      shared_bytes = layer.shares and layer.frozen ~= "layer" and layer.shares(c) / c.seq * shared or 0,
      boundary = boundary, forward_only = layer.frozen == "layer", stored = layer.stored or false,
      owns_table = i == owner, frozen_table = layer.frozen_table or false, copies_table = run.copies_table,
      uses = run.uses, order = run.order }
    copied = copied or run.copies_table
    for _, item in ipairs(state.software.autocast and slices.is_repeated_place[place] and items_of_layers[i] or {}) do
      casts = casts + layer.count * (item.times or 1) * autocast.copies(item)
    end
  end
  local gather = add_gather(state, stream_bytes)
  local tied_embedding_bytes = 0
  -- For a tied head, and with multi-token prediction (Megatron-Core, _allreduce_word_embedding_grads).
  if copied then
    tied_embedding_bytes = (shapes.local_vocab(c) + 0.0) * model.hyper.hidden
      * schema.dtype_bytes[p.gradient_dtype]
  end
  local software = state.software
  local description = {
    operations = state.operations, kinds = kinds, tied_embedding_bytes = tied_embedding_bytes,
    recompute_layers = p.recompute_layers or 0, recompute_method = p.recompute_method,
    tied_frozen = layers[1].frozen_table or false, element_bytes = width, gather = gather,
    workspace_bytes = software.workspace_bytes,
    context_bytes = software.context_bytes, communicator_bytes = software.communicator_bytes,
    lanes = placed.rates and #placed.tiers // 2 or 2, kept_gradient_bytes = software.keeps_gradients and width or 0,
    output_bytes = software.keeps_outputs and shared or 0, gathers_tensors = software.gathers_tensors,
    kept_logits = kept_logits(p, software), whole_ends = software.whole_ends,
    master_shards = software.master_shards, autocast = software.autocast, cast_bytes = casts,
    blocking_reductions = kept.blocking_reductions,
    whole_stages = software.whole_stages, defers_gradients = software.defers_gradients,
    frees_gradients = software.frees_gradients, foreach_update = software.update == "foreach",
    copies_gradients = software.copies_gradients,
    owned_tensors = software.owned_tensors,
    allocator_share = software.allocator_share,
    communication_share = stacks.gather_communication_share(software),
    exchange_communication_share = stacks.exchange_communication_share(software),
    boundary_bytes = (p.sequence_parallel or fields.sends_of(p, "scatter_sends")) and stream_bytes / p.tp
      or stream_bytes,
  }
  return { operations = state.operations, kinds = kinds, configuration = c, stack = software,
    gather = state.operations[gather], newton_provenance = state.newton.provenance,
    boundary_bytes = description.boundary_bytes, tensors = state.tensors,
    table_parameters = tied_embedding_bytes / schema.dtype_bytes[p.gradient_dtype],
    blocking_reductions = description.blocking_reductions }, description, state.groups
end

--- Number of times that the backward pass repeats the forward run of an operation, an index of a kind's `uses`.
---@param shares table? of slices.repeated or slices.repeated_shares; nil: all layers are repeated, one by one
function lower.repeats(recompute, o, kind, index, shares)
  if not slices.is_repeated_place[kind.place] or kind.forward_only then return 0 end
  if o.never_again then return shares and shares.outputs or 0 end
  if recompute == "selective" then return o.selective and 1 or 0 end
  if recompute == "policy" then
    if kind.place == "prediction" then return 0 end
    local runs = kind.policy_uses and kind.policy_uses[index]
    return runs and runs / kind.uses[index] or 0.5
  end
  return recompute == "full" and (shares and shares.layers or 1) or 0
end

--- The plan; with sequence parallelism if its software always splits the residual stream over tensor-parallel ranks.
--- Bytes and times do not depend on which dimension is split: gathers open a tensor-parallel region, reduce-scatters
--- close it. Routers get whole tokens, and tensor-parallel ranks split each expert. whole_tokens: see around_experts of
--- ett.operator.collective.
local function with_split_stream(model, p, stack)
  local etp = p.etp or p.tp
  if stack and stack.gathers_once and p.sequence_parallel and model.hyper.experts and p.tp > 1
    and (etp == 1 or etp == p.tp) then
    return setmetatable({ whole_tokens = etp == p.tp and "both" or "router" }, { __index = p })
  end
  local splits = stack and stack.splits_stream and p.tp > 1 and p.micro_batch * p.seq // p.cp % p.tp == 0
    and etp == p.tp
  if not splits then return p end
  return setmetatable({ sequence_parallel = true, whole_tokens = model.hyper.experts and "there" }, { __index = p })
end

--- The plan and the times with which a program is lowered.
local function prepared(model, p, times)
  times = times:of_plan(p)
  return with_split_stream(model, p, times.stack), times
end

--- The operations and layers of a model on the first part of a cluster, without a program: the fields of lower.program.
--- Plans with equal program keys (ett.plan.fields) and equal placements of the returned groups have equal operations.
---@return table
---@return string[] groups whose placements its times depend on
function lower.layers(model, p, times)
  p, times = prepared(model, p, times)
  local own = times.parts and times.parts[1] or times
  local lowered, _, groups = describe(model, p, own, fields.to_c(p, kept_of(own).placement, true))
  return lowered, groups
end

--- Lowers a model under a clean plan.
---@param model table from ett.model
---@param p table from ett.plan
---@param times table from ett.step.times
---@return table { program = userdata, operations = list, kinds = list of layers { uses, order, … }, configuration = c,
---  stack, gather?, boundary_bytes, tensors = set of names of outputs, table_parameters = those of a copy of the
---  embedding's table, blocking_reductions, parts = the same fields for each part of the cluster }; the outer fields
---  are those of parts[1]
function lower.program(model, p, times)
  p, times = prepared(model, p, times)
  local parts, descriptions = {}, {}
  for k, own in ipairs(times.parts or { times }) do
    local placed = fields.to_c(p, kept_of(own).placement, true)
    if times.parts then placed.rates = nil end -- tiers above the nodes of a part count as one network
    parts[k], descriptions[k] = describe(model, p, own, placed)
  end
  return merged(parts[1], { program = step_core.program(table.unpack(descriptions)), parts = parts })
end

return lower
