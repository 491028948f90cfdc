--- One batch as a picture in three dimensions: matrix products and communication.
--
-- Layers of two matrices stand as a staircase on the axes model width x layers and hidden
-- width x layers; the batch is the third axis, cut into replicas and microbatches. A layer
-- multiplies x (batch x model) by W1 into h (batch x hidden) and h by W2 into the next x: each
-- product lights its whole volume, model x hidden x microbatch. Communication flashes black:
-- between stages, between tensor slices, between replicas. Forward, then backward, then weight
-- gradients and their exchange (GPipe).
local error_module = require "ett.base.error"
local schema = require "ett.base.schema"

local picture = {}

picture.schema = {
  layers = { "count", default = 4 }, pp = { "degree", default = 2 }, dp = { "degree", default = 2 },
  tp = { "degree", default = 1 }, microbatches = { "count", default = 4 },
  width = { "count", default = 8 }, hidden = { "count", default = 16 }, batch = { "count", default = 48 },
}

local gap = { stage = 12, layer = 4, slice = 3, replica = 12, microbatch = 0.6 }

--- Checks the sizes: everything must divide, and the page stay small.
local function check(o)
  o = schema.check(o or {}, picture.schema, "picture")
  local broken = {}
  local function divides(name, size, by_name, by)
    if size % by ~= 0 then
      broken[#broken + 1] = ("%s = %d must be divisible by %s = %d"):format(name, size, by_name, by)
    end
  end
  divides("layers", o.layers, "pp", o.pp)
  divides("hidden", o.hidden, "tp", o.tp)
  divides("batch", o.batch, "dp x microbatches", o.dp * o.microbatches)
  if o.layers * o.dp * o.tp * o.microbatches > 4096 then
    broken[#broken + 1] = ("layers x dp x tp x microbatches = %d must be at most 4096 to be drawn"):format(
      o.layers * o.dp * o.tp * o.microbatches)
  end
  if #broken > 0 then error_module.raise("limit", "picture: %s", table.concat(broken, "; ")) end
  return o
end

--- Boxes and frames. Box: { kind, x0, x1, y0, y1, z0, z1, label }: x model, y hidden, z batch.
--- Frame: { text, come = boxes that appear, gone =, flash = for this frame only }, 0-based.
function picture.build(given)
  local o = check(given)
  local per_stage = o.layers // o.pp
  local boxes, frames = {}, {}
  local function box(...)
    boxes[#boxes + 1] = { ... }
    return #boxes - 1
  end
  local function frame_at(index)
    for k = #frames + 1, index do frames[k] = { come = {}, gone = {}, flash = {}, words = {} } end
    return frames[index]
  end
  local function say(f, text)
    for _, word in ipairs(f.words) do
      if word == text then return end
    end
    f.words[#f.words + 1] = text
  end
  -- Positions. x of layer l is between products; l runs to layers + 1 for the last output.
  local function stairs(size)
    return function(l)
      local crossed = math.min((l - 1) // per_stage, o.pp - 1)
      return (l - 1) * (size + gap.layer) + crossed * gap.stage
    end
  end
  local model_at, slice_size = stairs(o.width), o.hidden // o.tp
  local hidden_at = stairs(o.hidden + (o.tp - 1) * gap.slice)
  local function model(l) return model_at(l), model_at(l) + o.width end
  -- Where layer l's product W2 comes out: the next layer's place, or before a gap of stages.
  local function output(l) return model_at(l) + o.width + gap.layer, model_at(l) + 2 * o.width + gap.layer end
  local function leaves_stage(l) return l % per_stage == 0 and l < o.layers end
  local function hidden(l, s)
    local low = hidden_at(l) + (s - 1) * (slice_size + gap.slice)
    return low, low + slice_size
  end
  local each = o.batch // (o.dp * o.microbatches)
  local replica_size = o.microbatches * (each + gap.microbatch)
  local function samples(r, m)
    local low = (r - 1) * (replica_size + gap.replica) + (m - 1) * (each + gap.microbatch)
    return low, low + each
  end
  local function ends(r) -- where a replica's weights stand
    local low = (r - 1) * (replica_size + gap.replica)
    return low - 1.5, low - 1.5
  end
  local total = { model_at(o.layers) + 2 * o.width + gap.layer, hidden_at(o.layers) + o.hidden + (o.tp - 1) * gap.slice,
    o.dp * (replica_size + gap.replica) - gap.replica }

  -- Flat faces: x over (model, batch) above its layer, h over (hidden, batch) beside it.
  local made = {}
  local function face(kind, l, r, m, s, text)
    local key = table.concat({ kind, l, r, m, s or 0 }, " ")
    if not made[key] then
      local z0, z1 = samples(r, m)
      if s then
        local y0, y1 = hidden(l, s)
        local _, edge = model(l)
        made[key] = box(kind, edge + gap.layer / 2, edge + gap.layer / 2, y0, y1, z0, z1, text)
      else
        local x0, x1 = model(l)
        if l > o.layers then x0, x1 = output(o.layers) end
        local edge = l <= o.layers and hidden_at(l) - gap.layer / 2 or total[2] + gap.layer / 2
        made[key] = box(kind, x0, x1, edge, edge, z0, z1, text)
      end
    end
    return made[key]
  end
  local function matrix(kind, l, second, r, s, text)
    local key = table.concat({ kind, l, tostring(second), r, s }, " ")
    if not made[key] then
      local x0, x1 = (second and output or model)(l)
      local y0, y1 = hidden(l, s)
      local z0, z1 = ends(r)
      made[key] = box(kind, x0, x1, y0, y1, z0, z1, text)
    end
    return made[key]
  end
  local function volume(l, second, r, m, s)
    local x0, x1 = (second and output or model)(l)
    local y0, y1 = hidden(l, s)
    local z0, z1 = samples(r, m)
    return box("compute", x0, x1, y0, y1, z0, z1)
  end
  local function put(f, list, index) f[list][#f[list] + 1] = index end

  local first = frame_at(1)
  say(first, "weights in place; the batch waits")
  for r = 1, o.dp do
    for l = 1, o.layers do
      for s = 1, o.tp do
        put(first, "come", matrix("weight", l, false, r, s, r == 1 and s == 1 and ("W1." .. l) or nil))
        put(first, "come", matrix("weight", l, true, r, s, r == 1 and s == 1 and ("W2." .. l) or nil))
      end
    end
    for m = 1, o.microbatches do put(first, "come", face("activation", 1, r, m)) end
  end

  -- A layer of one microbatch takes `slot` frames: product, product, [tensor flash], [stage flash].
  local slot = 2 + (o.tp > 1 and 1 or 0) + (o.pp > 1 and 1 or 0)
  local function layers_of(stage) return (stage - 1) * per_stage + 1, stage * per_stage end
  local function start_of(order, m, offset, begin)
    return begin + ((order - 1 + m - 1) * per_stage + offset) * slot
  end
  local function each_slice(fn)
    for r = 1, o.dp do
      for s = 1, o.tp do fn(r, s) end
    end
  end
  -- A black bar where layer l comes out (or, for l = 0, goes in) of one microbatch; across
  -- the gap of stages when it leaves one.
  local function flash_face(f, text, l, m)
    for r = 1, o.dp do
      local x0, x1 = output(math.max(l, 1))
      if l == 0 then x0, x1 = model(1) end
      local y0 = l == 0 and -gap.layer / 2 or hidden_at(l) + o.hidden + (o.tp - 1) * gap.slice + gap.layer / 2
      local y1 = y0
      if text:match("send") then
        local _, far = model(l + 1)
        x1, y1 = far, hidden_at(l + 1) - gap.layer / 2
      end
      local z0, z1 = samples(r, m)
      put(f, "flash", box("send", x0 - 0.5, x1 + 0.5, y0 - 1, y1 + 1, z0, z1))
    end
    say(f, text)
  end
  -- The output of layer l still on its own stage, before it is sent.
  local function waiting(kind, l, r, m)
    local key = table.concat({ "out", kind, l, r, m }, " ")
    if not made[key] then
      local x0, x1 = output(l)
      local z0, z1 = samples(r, m)
      local y = hidden_at(l) + o.hidden + (o.tp - 1) * gap.slice + gap.layer / 2
      made[key] = box(kind, x0, x1, y, y, z0, z1)
    end
    return made[key]
  end
  local begin = 2
  for stage = 1, o.pp do
    local low, high = layers_of(stage)
    for m = 1, o.microbatches do
      for l = low, high do
        local t = start_of(stage, m, l - low, begin)
        local f, g = frame_at(t), frame_at(t + 1)
        each_slice(function(r, s)
          put(f, "flash", volume(l, false, r, m, s))
          put(f, "come", face("activation", l, r, m, s))
          put(g, "flash", volume(l, true, r, m, s))
          if s == 1 then
            put(g, "come", leaves_stage(l) and waiting("activation", l, r, m) or face("activation", l + 1, r, m))
          end
        end)
        say(f, ("forward: layer %d"):format(l))
        say(g, ("forward: layer %d"):format(l))
        local after = t + 2
        if o.tp > 1 then
          flash_face(frame_at(after), "tensor slices sum", l, m)
          after = after + 1
        end
        if leaves_stage(l) then
          flash_face(frame_at(after), "stages send activations", l, m)
          for r = 1, o.dp do
            put(frame_at(after + 1), "gone", waiting("activation", l, r, m))
            put(frame_at(after + 1), "come", face("activation", l + 1, r, m))
          end
        end
      end
    end
  end
  begin = #frames + 1
  local turn = frame_at(begin)
  say(turn, "loss; the backward pass begins")
  for r = 1, o.dp do
    for m = 1, o.microbatches do
      put(turn, "gone", face("activation", o.layers + 1, r, m))
      put(turn, "come", face("gradient", o.layers + 1, r, m, nil, r == 1 and m == 1 and "∇" or nil))
    end
  end
  begin = begin + 1
  for stage = o.pp, 1, -1 do
    local low, high = layers_of(stage)
    for m = 1, o.microbatches do
      for l = high, low, -1 do
        local t = start_of(o.pp - stage + 1, m, high - l, begin)
        local f, g = frame_at(t), frame_at(t + 1)
        each_slice(function(r, s)
          put(f, "flash", volume(l, true, r, m, s))
          put(f, "gone", face("activation", l, r, m, s))
          put(f, "come", face("gradient", l, r, m, s))
          put(f, "come", matrix("gradient", l, true, r, s, r == 1 and s == 1 and ("∇W2." .. l) or nil))
          put(g, "flash", volume(l, false, r, m, s))
          put(g, "gone", face("gradient", l, r, m, s))
          put(g, "come", matrix("gradient", l, false, r, s, r == 1 and s == 1 and ("∇W1." .. l) or nil))
          if s == 1 then
            put(g, "gone", leaves_stage(l) and waiting("gradient", l, r, m) or face("gradient", l + 1, r, m))
            put(g, "gone", face("activation", l, r, m))
            put(g, "come", face("gradient", l, r, m))
          end
        end)
        say(f, ("backward: layer %d"):format(l))
        say(g, ("backward: layer %d"):format(l))
        local after = t + 2
        if o.tp > 1 then
          flash_face(frame_at(after), "tensor slices sum", l - 1, m)
          after = after + 1
        end
        if stage > 1 and l == low then
          flash_face(frame_at(after), "stages send gradients", l - 1, m)
          for r = 1, o.dp do
            put(frame_at(after + 1), "gone", face("gradient", l, r, m))
            put(frame_at(after + 1), "come", waiting("gradient", l - 1, r, m))
          end
        end
      end
    end
  end
  begin = #frames + 1
  local inputs = frame_at(begin)
  say(inputs, "weight gradients are complete")
  for r = 1, o.dp do
    for m = 1, o.microbatches do put(inputs, "gone", face("gradient", 1, r, m)) end
  end
  if o.dp > 1 then
    for l = o.layers, 1, -1 do
      local f = frame_at(#frames + 1)
      say(f, ("replicas sum gradients: layer %d"):format(l))
      each_slice(function(r, s)
        for _, second in ipairs { false, true } do
          local b = boxes[matrix("gradient", l, second, r, s) + 1]
          put(f, "flash", box("send", b[2] - 0.5, b[3] + 0.5, b[4] - 0.5, b[5] + 0.5, b[6] - 1, b[7] + 1))
        end
      end)
    end
  end
  local finish = frame_at(#frames + 1)
  say(finish, "weights are updated; the batch is done")
  for l = 1, o.layers do
    each_slice(function(r, s)
      put(finish, "gone", matrix("gradient", l, false, r, s))
      put(finish, "gone", matrix("gradient", l, true, r, s))
    end)
  end
  for i, f in ipairs(frames) do
    f.text = #f.words > 0 and table.concat(f.words, "; ") or "pipeline waits"
    f.words = nil
    for _, list in ipairs { "come", "gone", "flash" } do
      if #f[list] == 0 then f[list] = nil end
    end
    frames[i] = f
  end
  return { boxes = boxes, frames = frames, size = total, settings = o }
end

--- JSON of numbers, strings and lists, short; nil holes at a list's end are left out.
local function encode(value)
  if type(value) == "table" then
    local parts = {}
    if value[1] ~= nil or next(value) == nil then
      for i = 1, #value do parts[i] = encode(value[i]) end
      return "[" .. table.concat(parts, ",") .. "]"
    end
    local keys = {}
    for key in pairs(value) do keys[#keys + 1] = key end
    table.sort(keys)
    for i, key in ipairs(keys) do parts[i] = ("%q:%s"):format(key, encode(value[key])) end
    return "{" .. table.concat(parts, ",") .. "}"
  elseif type(value) == "number" then
    return math.type(value) == "integer" and ("%d"):format(value) or ("%.6g"):format(value)
  end
  return '"' .. tostring(value):gsub('[\\"<]', { ["\\"] = "\\\\", ['"'] = '\\"', ["<"] = "\\u003c" }) .. '"'
end

--- The whole page: HTML with its data, styles and script inside; no other file is needed.
function picture.page(given)
  local host = require "ett.host"
  local built = picture.build(given)
  local path = host.root .. "/lua/ett/ledger/picture.html"
  local file, why = io.open(path, "rb")
  if not file then error_module.raise("io", "cannot read the page's template: %s", why) end
  local template = file:read("a")
  file:close()
  local o = built.settings
  local title = ("%d layer%s: pipeline %d, data %d, tensor %d, microbatches %d"):format(o.layers,
    o.layers > 1 and "s" or "", o.pp, o.dp, o.tp, o.microbatches)
  local data = encode { boxes = built.boxes, frames = built.frames, size = built.size }
  return (template:gsub("@(%u+)@", { TITLE = title, DATA = data })), built
end

return picture
