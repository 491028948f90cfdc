-- The code in every README runs. A block marked lua is run as a file of its own in an empty
-- folder, unless parts of it are left out ("…"); one marked console is a transcript, checked
-- word for word. A fence that says more (```lua sketch) is not run.
local command = require "command"
local tree = require "tree"

local function blocks(text)
  local found = {}
  for language, code in text:gmatch("\n```(%w*)\n(.-)\n```") do
    found[#found + 1] = { language = language, code = code } end
  return found
end

for _, path in ipairs(tree.files "/README%.md$") do -- the root README: readme_slow_spec.lua
  describe(path, function()
    local transcript = {}
    for i, block in ipairs(blocks("\n" .. tree.read(path))) do
      if block.language == "lua" and not block.code:find("…", 1, true) then
        it(("block %d runs"):format(i), function()
          local folder = command.folder()
          command.write(folder, "example.lua", block.code .. "\n")
          -- What describes something is loaded; what is about specs is run by the spec runner.
          local about_specs = block.code:match "describe%("
          local output, status = command.ett(folder, about_specs and "spec example.lua" or "run example.lua --quiet",
            about_specs and "timeout 300")
          command.remove(folder)
          assert.equal(0, status, output)
        end)
      elseif block.language == "console" then
        transcript[#transcript + 1] = block.code
      end
    end
    if #transcript > 0 then
      it("its commands print the shown output", function()
        local folder = command.folder()
        command.write(folder, "page.t", table.concat(transcript, "\n\n") .. "\n")
        local output, status = command.ett(folder, "transcript page.t")
        command.remove(folder)
        assert.equal(0, status, output)
      end)
    end
  end)
end

it("the README states the error of ACCURACY.md", function()
  local stated = "over (%d+) published training steps is about (%d+) %%"
  local steps, percent = tree.read("README.md"):match(stated)
  local all, exact = tree.read("ACCURACY.md"):match("| steps | %d+ of (%d+) | ([%d.]+) %%")
  assert.equal(all, steps)
  assert.is_true(math.abs(exact - percent) <= 0.6, exact)
end)

it("the README names every objective of a search, and every line of its first estimate", function()
  local text = tree.read "README.md"
  for _, name in ipairs(require("ett.search.objective").names()) do
    assert.truthy(text:find("Other objectives are [^.]*`" .. name .. "`") or name == "dollars", name)
  end
  for name in text:match("\n\nstep time [^\n]*\n(.-)\n```"):gmatch "%f[^\n%z]%a+" do
    assert.truthy(text:find("\n| `" .. name .. "` |", 1, true), name)
  end
end)

it("clusters/README.md names every cluster, and the changelog counts the devices", function()
  local text, find = tree.read "clusters/README.md", require "ett.base.find"
  for _, name in ipairs(find.names "clusters") do assert.truthy(text:find("`" .. name .. "`", 1, true), name) end
  local counted = tree.read("CHANGELOG.md"):match "`clusters/devices`: facts of (%d+) devices"
  assert.equal(#find.names "clusters/devices", tonumber(counted))
end)
