--- Collectives: the entries of an architecture, and the operations of one device for them.
--
-- Conventions of nccl-tests: `bytes` is the size of the whole buffer, which is the result of all_gather and the input
-- of reduce_scatter. `degree` is the number of ranks.
local dialect = require "ett.operator.dialect"
local error_module = require "ett.base.error"
local modules = require "ett.operator.modules"
local names = require "ett.base.collective"
local schema = require "ett.base.schema"
local shapes = require "ett.operator.shapes"
local width = require("ett.operator.memory").width

local collective = {}

collective.kinds, collective.aliases = names.kinds, names.aliases

--- Standard name of a kind, an alias or a dialect's name, or nil.
function collective.find(name) return names.find(name) or dialect.collective(name) end

--- collective.find; raises with the nearest name.
function collective.kind(name) return collective.find(name) or names.kind(name) end

local none = {} -- never changed

local function one(kind, group, degree, bytes, pass, overlapped)
  if degree == 1 then return none end
  return { { kind = "collective", name = kind, group = group, degree = degree, bytes = bytes, pass = pass,
    times = 1, overlapped = overlapped or false,
    role = nil, module = nil } } -- set later
end

-- Marks gathers of an operand of a product; a stack may gather the operand quantised.
local function operand(list)
  for _, item in ipairs(list) do item.operand = true end
  return list
end

-- Marks collectives that a dispatcher of experts waits for: no product overlaps them. In Megatron-Core both passes wait
-- (tensor_parallel/mappings.py: _GatherFromSequenceParallelRegion, _ReduceScatterToSequenceParallelRegion), and
-- Transformer Engine's GroupedLinear refuses userbuffers.
local function blocking(list)
  for _, item in ipairs(list) do item.blocking = true end
  return list
end

local function join(...)
  local list, count = {}, 0
  for i = 1, select("#", ...) do
    local part = select(i, ...)
    for k = 1, #part do
      count = count + 1
      list[count] = part[k]
    end
  end
  return list
end

local function hidden_bytes(c) return width(c.dtype) * (shapes.tokens(c) + 0.0) * c.hidden end

--- Tokens of a micro-batch that a group of etp ranks shares.
local function expert_group_tokens(c) return shapes.tokens(c) * (c.etp or c.tp) // c.tp end

--- Ring exchange: cp - 1 blocks forward; backward as many blocks with gradients, plus one step that returns gradients.
--- block, gradients: bytes of the keys and values of one rank, and of their gradients. gathered: one gather brings the
--- blocks in each pass, and only gradients pass around the ring. Each step, and a gather as a whole, overlaps the
--- attention to one block, unless c.exposes_context. A backward pass runs the list in reverse: the last step
--- follows those beside attention.
---@param c table the configuration of the layer
---@param members string? the group of ranks, if it is a part of the context group
local function ring(c, cp, members, block, gradients, gathered)
  local function message(name, bytes, pass, times)
    return { kind = "collective", name = name, group = "cp", members = members, degree = cp, bytes = bytes,
      pass = pass, times = times, overlapped = not c.exposes_context, pieces = cp }
  end
  local last = message("send_recv", gradients, "backward", 1)
  last.overlapped = false
  if not gathered then
    return { message("send_recv", block, "forward", cp - 1), last,
      message("send_recv", block + gradients, "backward", cp - 1) }
  end
  return { message("all_gather", cp * block, "forward", 1), last, message("send_recv", gradients, "backward", cp - 1),
    message("all_gather", cp * block, "backward", 1) }
end

--- All-to-alls of `ranks` context ranks that bring queries, keys and values to the ranks of their heads, and the output
--- back; in both passes.
local function ulysses(c, ranks)
  local heads, kv = shapes.local_heads(c), math.max(shapes.local_kv_heads(c), ranks)
  local each, keys = width(c.dtype) * (shapes.tokens(c) + 0.0), (c.key_seq or c.seq) / c.seq
  local into = each * (heads * shapes.head_dim(c)
    + keys * kv * (shapes.head_dim(c) + (c.v_head_dim or shapes.head_dim(c))))
  local out = each * heads * (c.v_head_dim or shapes.head_dim(c))
  local list = join(one("all_to_all", "cp", ranks, into, "forward"), one("all_to_all", "cp", ranks, out, "forward"),
    one("all_to_all", "cp", ranks, into, "backward"), one("all_to_all", "cp", ranks, out, "backward"))
  for _, item in ipairs(list) do item.members = ranks < c.cp and "cp ulysses" or nil end
  return list
end

-- Whether the collectives around the experts serve shared experts, too. In torchtitan these get the gathered stream,
-- and their partial sums are scattered with the others (apply_moe_ep_tp).
local function serves_experts(c)
  return c.beside_experts and (c.whole_tokens == "both" or c.whole_tokens == "router")
end

-- Patterns of model parallelism: the collectives of both passes of each.
local patterns = {
  --- Opens a tensor-parallel region (Megatron's f). The forward pass copies; the backward pass sums the gradient of the
  --- input. With sequence parallelism the forward pass gathers the sequence, and the backward pass reduce-scatters the
  --- gradient. The backward pass also gathers the input again for the weight gradient, while it computes the input
  --- gradient (Korthikanti et al. 2022, section 4.2.2).
  tensor_enter = function(c)
    local bytes = hidden_bytes(c)
    if serves_experts(c) then return {} end
    if c.sequence_parallel then
      local gathered = c.unquantised and join or operand
      return join(gathered(one("all_gather", "tp", c.tp, bytes, "forward")),
        one("reduce_scatter", "tp", c.tp, bytes, "backward"),
        gathered(one("all_gather", "tp", c.tp, bytes, "backward", true)))
    end
    return one("all_reduce", "tp", c.tp, bytes, "backward")
  end,
  --- Closes the region (Megatron's g): the forward pass sums, the backward pass copies.
  tensor_leave = function(c)
    local bytes = hidden_bytes(c)
    if serves_experts(c) then return {} end
    if c.sequence_parallel then
      return join(one("reduce_scatter", "tp", c.tp, bytes, "forward"),
        operand(one("all_gather", "tp", c.tp, bytes, "backward")))
    end
    return one("all_reduce", "tp", c.tp, bytes, "forward")
  end,
  --- Vocabulary-parallel cross entropy: three fp32 numbers per token (maximum, target logit, sum of exponentials).
  vocabulary_reduce = function(c)
    local bytes = 4.0 * shapes.tokens(c)
    local function reduce() return one("all_reduce", "tp", c.tp, bytes, "forward") end
    return join(reduce(), reduce(), reduce())
  end,
  --- All-to-all of tokens to the ranks of their experts, and back: top_k copies of each token of this rank. Under
  --- sequence parallelism a rank holds its share of the sequence, else its share of the etp group's tokens. With
  --- whole_tokens (around_experts) it may hold all.
  expert_exchange = function(c, back)
    local tokens = c.sequence_parallel and (back and shapes.returned_tokens or shapes.routed_tokens)(c)
      or expert_group_tokens(c)
    local bytes = width(c.dtype) * (tokens + 0.0) * c.hidden * c.top_k * (c.expert_load or 1)
    return join(one("all_to_all", "ep", c.ep, bytes, "forward"), one("all_to_all", "ep", c.ep, bytes, "backward"))
  end,
  --- Context parallelism. all_gather: the forward pass gathers keys and values, the backward pass reduce-scatters their
  --- gradients (Llama 3, section 3.3.2). ring: blocks of keys and values pass from rank to rank during attention to the
  --- previous block. The backward pass moves blocks with gradients, one step more (Liu et al. 2023, arXiv 2310.01889).
  --- ulysses: all-to-alls of queries, keys, values and output.
  --- PyTorch's context_parallel (_attention.py, _templated_ring_attention and its backward pass): a gather overlaps the
  --- attention to the rank's own block, and gradients of keys and values pass around a ring in fp32 under both methods.
  --- repeated_keys: the blocks have a head for each local query head.
  --- A ring of ranks with the same heads, with cp_ulysses: the exchange for heads comes first.
  context_exchange = function(c)
    local cp, heads = c.cp or 1, c.repeated_keys and shapes.local_heads(c) or shapes.local_kv_heads(c)
    local apart = shapes.ulysses(c)
    local ranks, exchanges = cp // apart, apart > 1 and ulysses(c, apart) or {}
    if cp > 1 and ranks == 1 then return exchanges end
    local dims = shapes.head_dim(c) + (c.v_head_dim or shapes.head_dim(c))
    local kv = 1.0 * width(c.dtype) * c.micro_batch * (c.key_seq or c.seq) * math.max(1, heads // apart) * dims
    local members = apart > 1 and "cp ring" or nil
    if cp > 1 and c.context_parallel == "torch" then
      local gradients = 4.0 / width(c.dtype) * kv / ranks
      return join(exchanges, ring(c, ranks, members, kv / ranks, gradients, c.cp_method ~= "ring"))
    end
    if cp > 1 and c.cp_method == "ring" then
      return join(exchanges, ring(c, ranks, members, kv / ranks, kv / ranks))
    end
    return join(one("all_gather", "cp", c.cp, kv, "forward"), one("reduce_scatter", "cp", c.cp, kv, "backward"),
      one("all_gather", "cp", c.cp, kv, "backward"))
  end,
}

-- Collectives around experts, as in Megatron-Core's MoEAlltoAllTokenDispatcher. Under sequence parallelism the etp
-- ranks of an expert gather the received token copies and reduce-scatter their results. Without it the ranks hold the
-- same tokens: each rank of an etp group takes a share, the group sums it, and the shares are gathered over tp.
-- whole_tokens: the stream is gathered before the router. The collectives stand here, between the exchanges.
--   there    MaxText scatters the sums of the experts' outputs before they go back (moe.py, sparse_matmul:
--            input_partition_pspec, psum_scatter)
--   both     torchtitan scatters the sums of the tokens that came back (llama4/infra/parallelize.py, apply_moe_ep_tp:
--            PrepareModuleInputOutput of `moe`; ExpertTensorParallel)
--   router   the same, but each rank sends its share of the tokens to whole experts (ReordererSequenceParallel)
local function around_experts(gather_pass, sum_pass)
  return function(c)
    local etp = c.etp or c.tp
    if c.sequence_parallel then
      local bytes = width(c.dtype) * (expert_group_tokens(c) + 0.0) * c.hidden * c.top_k * (c.expert_load or 1)
      local once = c.whole_tokens == "both" or c.whole_tokens == "router"
      if once then etp = c.tp end
      if once or c.whole_tokens and gather_pass == "forward" then bytes = hidden_bytes(c) end
      local group = etp == c.tp and "tp" or "etp"
      return blocking(join(one("all_gather", group, etp, bytes, gather_pass),
        one("reduce_scatter", group, etp, bytes, sum_pass)))
    end
    if etp == c.tp then return blocking(one("all_reduce", "tp", c.tp, hidden_bytes(c), sum_pass)) end
    local shares = one("all_gather", "tp", c.tp // etp, hidden_bytes(c), sum_pass)
    shares[1].stride = etp
    return blocking(join(one("all_reduce", "etp", etp, hidden_bytes(c) * etp / c.tp, sum_pass), shares))
  end
end
patterns.expert_enter = around_experts("forward", "backward")
patterns.expert_leave = around_experts("backward", "forward")

local module = { "string", optional = true, one_of = modules.names }
local by_pattern = { collective = "string", with = "any?", module = module }
local explicit = { collective = "string", group = { "string", one_of = { "tp", "cp", "ep", "dp" } },
  elements = "function", pass = { "string", default = "forward", one_of = { "forward", "backward" } },
  times = "count?", overlapped = "boolean?", with = "any?", module = module }

--- Checks an entry { collective = pattern } or { collective = kind, group, elements, pass }.
function collective.check_entry(entry)
  if patterns[entry.collective] then
    schema.check(entry, by_pattern)
    return
  end
  if not names.find(entry.collective) then
    local known = schema.keys(patterns)
    table.move(names.kinds, 1, #names.kinds, #known + 1, known)
    error_module.raise("missing", "%s", error_module.unknown("collective", entry.collective, known))
  end
  schema.check(entry, explicit)
end

-- The operations of an entry that states its group and its elements.
local function stated(entry, c)
  local elements = schema.returning(entry.elements, "nonnegative",
    ("collective '%s': elements"):format(entry.collective))(c)
  return one(names.kind(entry.collective), entry.group, c[entry.group] or 1, width(c.dtype) * (elements + 0.0),
    entry.pass or "forward", entry.overlapped)
end

--- The operations for an entry: a list of { kind, name, group, members, degree, bytes, pass, times, overlapped,
--- blocking, stride }. members: a part of the group, by its name in C. overlapped: it overlaps the next product in any
--- software; blocking: it overlaps none.
--- stride: the distance between the ranks of the group, for groups whose name does not define it.
---@param back boolean? the entry is an exchange that brings tokens back from experts
function collective.expand(entry, c, back)
  local pattern = patterns[entry.collective]
  local list = pattern and pattern(c, back) or stated(entry, c)
  for i = 1, entry.times and #list or 0 do list[i].times = list[i].times * entry.times end
  return list
end

return collective
