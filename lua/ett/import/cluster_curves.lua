--- Writes a measured curve into the text of a cluster file and keeps the rest of the text. The new text is loaded as a
--- check: it must differ from the old one only by the curve.
---
---   cluster_curves.add("clusters/mine.lua", require("ett.import.nccl_tests").read "all_reduce.txt")
local cluster_module = require "ett.profile.cluster"
local error_module = require "ett.base.error"
local find = require "ett.base.find"
local folder = require "ett.base.folder"

local cluster_curves = {}

-- The text with comments and strings replaced by blanks, so that braces and names belong to the program. Positions are
-- unchanged.
local function blanked(text)
  local parts, at = {}, 1
  local function blank(last)
    parts[#parts + 1] = (text:sub(at, last):gsub("[^\n]", " "))
    at = last + 1
  end
  while at <= #text do
    local ch = text:sub(at, at)
    local level = text:match("^%-?%-?%[(=*)%[", at)
    if level and (ch == "[" or text:match("^%-%-%[", at)) then
      local _, last = text:find("]" .. level .. "]", at, true)
      blank(last or #text)
    elseif text:match("^%-%-", at) then
      blank((text:find("\n", at, true) or #text + 1) - 1)
    elseif ch == '"' or ch == "'" then
      local last = at + 1
      while last <= #text and text:sub(last, last) ~= ch do
        last = last + (text:sub(last, last) == "\\" and 2 or 1)
      end
      blank(last)
    else
      parts[#parts + 1] = ch
      at = at + 1
    end
  end
  return table.concat(parts)
end

-- Finds the table after `field = ` at the top level of the table between first and last. Returns the positions of its
-- braces and of the field.
local function table_of(code, field, first, last)
  local at = first + 1
  while at < last do
    local from, open = code:find("%f[%w_%[]" .. field .. "%s*=%s*{", at)
    if not from or from >= last then return nil end
    local inner = code:find("{", at, true)
    if inner == open then
      local _, close = code:find("^%b{}", open)
      return open, close, from
    end
    local _, close = code:find("^%b{}", inner)
    at = (close or last) + 1
  end
end

-- The nth table in the list between first and last.
local function nth_table(code, n, first, last)
  local at = first + 1
  for k = 1, n do
    local open = code:find("{", at, true)
    if not open or open > last then return nil end
    local _, close = code:find("^%b{}", open)
    if k == n then return open, close end
    at = close + 1
  end
end

-- The braces of the table that contains `curves`: links.intra, or tier number k.
local function owner(code, place)
  for open in code:gmatch "()%f[%w]return%s*{" do
    local first, last = code:find("%b{}", open)
    if place == 0 then
      local links, end_of_links = table_of(code, "links", first, last)
      if links then return table_of(code, "intra", links, end_of_links) end
    else
      local tiers, end_of_tiers = table_of(code, "tiers", first, last)
      if tiers then return nth_table(code, place, tiers, end_of_tiers) end
    end
  end
end

-- `[8] = { bytes, bytes/s, … },` wrapped at 100 columns.
local function curve_text(run, indent)
  local note = ("%s-- %s, %s, %s"):format(indent, run.label, run.device or "device unknown", run.file)
  local lines, line = { (note:gsub("%c", " "):sub(1, 118)) }, ("%s[%d] = {"):format(indent, run.ranks)
  for i = 1, #run.curve, 2 do
    local pair = (" %d, %s,"):format(run.curve[i], ("%.5ge9"):format(run.curve[i + 1] / 1e9))
    if #line + #pair > 100 then
      lines[#lines + 1] = line
      line = indent .. " "
    end
    line = line .. pair
  end
  lines[#lines + 1] = line:gsub(",$", " },")
  return table.concat(lines, "\n")
end

-- The text with the curve added; nil if the file is not written as plain tables.
local function edited(text, run, place)
  local code = blanked(text)
  local open, close = owner(code, place)
  if not open then return nil end
  local function insert(at, what) return text:sub(1, at) .. "\n" .. what .. text:sub(at + 1) end
  local curves, end_of_curves = table_of(code, "curves", open, close)
  if not curves then
    return insert(open, ("      curves = { %s = {\n%s\n      } },"):format(run.kind, curve_text(run, "        ")))
  end
  local own, end_of_own = table_of(code, run.kind, curves, end_of_curves)
  if not own then
    return insert(curves, ("        %s = {\n%s\n        },"):format(run.kind, curve_text(run, "          ")))
  end
  local old, end_of_old, from = table_of(code, "%[%s*" .. run.ranks .. "%s*%]", own, end_of_own)
  if old then
    local before = text:sub(1, from - 1):gsub("%s*%-%- [^\n]* of nccl%-tests over [^\n]*\n%s*$", "\n")
    text = before:gsub("%s+$", "") .. text:sub(end_of_old + 1):gsub("^%s*,", "")
  end
  return insert(own, curve_text(run, "          "))
end

-- The index of the tier that a run measures; 0: links.intra.
local function place_of(cluster, run, asked, label)
  if not cluster.tiers then
    if asked then error_module.raise("usage", "%s has links, not tiers; omit --tier", label) end
    if run.hosts and run.hosts > 1 then
      error_module.raise("model", "%s: %d ranks on %d hosts measure the network, whose curves need 'tiers'; "
        .. "clusters/README.md shows them", label, run.ranks, run.hosts)
    end
    return 0
  end
  for k, tier in ipairs(cluster.tiers) do
    local joins = not tier.size or tier.size >= run.ranks
    if asked and tier.name == asked or not asked and joins
      and (not run.hosts or (run.hosts > 1) == (k > cluster.node_tier)) then
      return k
    end
  end
  error_module.raise("model", asked and "%s has no tier '%s'" or "%s has no tier for %s ranks%s", label,
    asked or tostring(run.ranks), asked and "" or run.hosts and (" on %d hosts"):format(run.hosts) or "")
end

local function same(a, b)
  if type(a) ~= "table" or type(b) ~= "table" then
    return a == b or type(a) == "function" and type(b) == "function"
  end
  for key, value in pairs(a) do
    if not same(value, b[key]) then return false end
  end
  for key in pairs(b) do
    if a[key] == nil then return false end
  end
  return true
end

-- Sets the curve in the loaded table; returns whether there was one before.
local function put(value, run, place)
  local holder = place == 0 and value.links.intra or value.tiers[place]
  if type(holder.curves) == "string" then
    error_module.raise("model", "%s: 'curves' names the cluster '%s'; replace the name by a table first", run.target,
      holder.curves)
  end
  holder.curves = holder.curves or {}
  local own = holder.curves[run.kind] or {}
  local old = own[run.ranks]
  own[run.ranks], holder.curves[run.kind] = run.curve, own
  return old ~= nil
end

--- Adds the curve of a run to a cluster file.
---@param name string path or name of a cluster
---@param run table of ett.import.nccl_tests
---@param given { tier: string?, replace: boolean? }?
---@return string path, string location of the curve: "links.intra", or "tier NAME"
function cluster_curves.add(name, run, given)
  given = given or {}
  local cluster = cluster_module.get(name)
  require("ett.profile.network.parts").refuse(cluster, "ett cluster add-curve")
  local path = cluster.path
  if path:sub(1, #require("ett.host").root + 1) == require("ett.host").root .. "/" then
    error_module.raise("usage", "%s is part of ett; copy it to your own folder and name the copy", path)
  end
  local place = place_of(cluster, run, given.tier, find.label(path))
  run.target, run.file = path, run.path:match "[^/]+$"
  run.label = ("%s of nccl-tests over %d ranks"):format(run.kind, run.ranks)
  for i = 2, #run.curve, 2 do run.curve[i] = tonumber(("%.5ge9"):format(run.curve[i] / 1e9)) end
  local wanted = find.load_file(path)
  if put(wanted, run, place) and not given.replace then
    error_module.raise("usage", "%s has a curve of %s over %d ranks already; --replace replaces it", path,
      run.kind, run.ranks)
  end
  cluster_module.check(wanted, find.label(path), path)
  local text = error_module.must(require("ett.io").read(path, 1 << 20))
  local new = edited(text, run, place)
  local fine = new and folder.within(function(temporary)
    local copy = folder.write(temporary .. "/" .. find.label(path):match "[^/]+$", new)
    local ok, value = pcall(find.load_file, copy)
    return ok and same(value, wanted)
  end)
  if not fine then
    error_module.raise("model", "%s is not written as plain tables; add this to its 'curves = { %s = { … } }':"
      .. "\n%s", path, run.kind, curve_text(run, "  "))
  end
  folder.write(path, new)
  return path, place == 0 and "links.intra" or "tier " .. cluster.tiers[place].name
end

return cluster_curves
