--- Lines of product code for the functions of the tree before its files moved into rooms (support/later_commits).
-- git blame gives each line its commit. A line that a later commit only reworded or moved keeps the commit that brought
-- it: git ignores commits that add no capability, and names them only for lines that replace none. Lines of the old
-- tree, and of commits that add no capability, serve its functions. A commit that adds a capability also replaces
-- lines; that share of its lines (removed over added, at most 1) serves the same functions, the rest is counted with
-- the capability. Takes some minutes.
local bench = { summary = "lines of the functions that the tree had before its rooms, by git blame (minutes)" }

local function output(git, command)
  local pipe = assert(io.popen(git .. command))
  local text = pipe:read("a")
  assert(pipe:close(), command)
  return text
end

--- Share of a commit's added lines for which it removed others.
local function replaced(git, commit, base, product)
  local added, removed = 0, 0
  for plus, minus, path in output(git, ("diff --no-renames --numstat %s %s"):format(base, commit))
    :gmatch "(%d+)\t(%d+)\t([^\n]*)\n" do
    if product(path) then added, removed = added + plus, removed + minus end
  end
  return added > 0 and math.min(1, removed / added) or 1
end

--- Lines of each commit, by its first seven digits. grafts, ignored: names of files for git.
local function lines_by_commit(git, files, grafts, ignored)
  local counts = {}
  for _, path in ipairs(files) do
    local text = output(git, ("blame -s -w -M -C --abbrev=40 -S '%s' --ignore-revs-file '%s' HEAD -- '%s'"):format(
      grafts, ignored, path))
    for commit in text:gmatch "%f[^\n\0]%^?(%x%x%x%x%x%x%x)%x*" do counts[commit] = (counts[commit] or 0) + 1 end
  end
  return counts
end

--- The commits after the old tree that add no capability, one a line.
local function without_capability(git, later)
  local adds, list = {}, {}
  for _, commits in pairs(later.capabilities) do
    for commit in commits:gmatch "%x+" do adds[commit] = true end
  end
  for commit in output(git, ("rev-list %s..HEAD"):format(later.first)):gmatch "%x+" do
    if not adds[commit:sub(1, 7)] then list[#list + 1] = commit .. "\n" end
  end
  return table.concat(list)
end

function bench.run()
  local root = require("ett.host").root
  package.path = ("%s/spec/support/?.lua;%s/spec/bench/support/?.lua;%s"):format(root, root, package.path)
  local later, structure = require "later_commits", require "structure"
  local git = ("cd '%s' && git "):format(root)
  local old, grafts, name, ignored = {}, {}, os.tmpname(), os.tmpname()
  for commit in output(git, "rev-list " .. later.first):gmatch "%x+" do old[commit:sub(1, 7)] = true end
  for commit, lost in pairs(later.restored) do
    grafts[#grafts + 1] = output(git, ("rev-parse %s %s~"):format(commit, lost)):gsub("\n", " ") .. "\n"
  end
  require("ett.base.folder").write(name, table.concat(grafts))
  require("ett.base.folder").write(ignored, without_capability(git, later))
  local counts = lines_by_commit(git, structure.product_files(), name, ignored)
  os.remove(name)
  os.remove(ignored)
  local rows, sum, kept, since = {}, 0, 0, 0
  for capability, commits in pairs(later.capabilities) do
    local lines = 0
    for commit in commits:gmatch "%x+" do
      local count = counts[commit] or 0
      local base = later.restored[commit] or commit
      local share = count > 0 and replaced(git, commit, base .. "~", structure.is_product) or 0
      counts[commit] = nil
      sum, since, lines = sum + count, since + count * share, lines + count * (1 - share)
    end
    rows[#rows + 1] = { measure = "    later: " .. capability, value = math.floor(lines + 0.5) }
  end
  table.sort(rows, function(a, b) return a.value > b.value end)
  for commit, count in pairs(counts) do
    sum = sum + count
    if old[commit] then kept = kept + count else since = since + count end
  end
  local same = math.floor(kept + since + 0.5)
  table.insert(rows, 1, { measure = "lines of product code", value = sum })
  table.insert(rows, 2, { measure = "    of the tree " .. later.first, value = kept })
  table.insert(rows, 3, { measure = "    written since for the same functions", value = same - kept })
  table.insert(rows, 4, { measure = "lines that serve the functions of " .. later.first, value = same,
    target = "<= 56000", pass = same <= 56000 })
  return rows
end

return bench
