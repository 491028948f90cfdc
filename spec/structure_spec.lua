-- The shape of the tree: what a reader may rely on without looking.
local command = require "command"
local find = require "ett.base.find"
local structure = require "structure"
local tree = require "tree"

--- C without comments, strings and character constants.
local function code_of(text)
  text = text:gsub("/%*.-%*/", " "):gsub("//[^\n]*", "")
  return (text:gsub('\\.', ""):gsub('"[^"\n]*"', '""'):gsub("'[^'\n]*'", "''"))
end

local function assert_none(found, what) assert.equal("", table.concat(found, "\n"), what) end

describe("description files:", function()
  local wanted = {
    operators = { name = "string", summary = "string", schema = "table", shape = "function" },
    clusters = { name = "string", summary = "string" },
    metrics = { name = "string", summary = "string", compute = "function" },
    campaigns = { summary = "string" },
    schedules = { name = "string", summary = "string" },
  }
  for kind, fields in pairs(wanted) do
    it(kind .. " say their name, summary and schema", function()
      local missing = {}
      for _, entry in ipairs(find.list(find.folders[kind])) do
        local value = find.load_file(entry.path)
        for field, type_wanted in pairs(fields) do
          if type(value[field]) ~= type_wanted then
            missing[#missing + 1] = ("%s: field '%s' must be a %s"):format(entry.path, field, type_wanted)
          end
        end
        if value.name and value.name ~= entry.name then
          missing[#missing + 1] = ("%s: calls itself '%s'"):format(entry.path, value.name)
        end
      end
      assert_none(missing)
    end)
  end

  it("clusters say where their facts are from", function()
    local missing = {}
    for _, entry in ipairs(find.list "clusters") do
      if not tree.read(entry.path:sub(#tree.root + 2)):find("source%s*=") then missing[#missing + 1] = entry.path end
    end
    assert_none(missing)
  end)

  it("and every Lua file begin with a comment that says what they are", function()
    local bare = {}
    for _, path in ipairs(tree.files "^[^s].*%.lua$") do
      local text = tree.read(path):gsub("^#![^\n]*\n", "")
      if not text:match("^%-%-") then bare[#bare + 1] = path end
    end
    assert_none(bare)
  end)
end)

describe("the tree", function()
  it("has no cycle among modules, lazy requires included, nor among C rooms", function()
    assert_none(structure.cycles(structure.lua_modules()))
    assert_none(structure.cycles(structure.rooms(structure.c_files())))
  end)

  it("has no arrow between rooms but the design's", function() assert_none(structure.wrong_arrows()) end)
  it("has no other file or folder at its top", function()
    local list, status = command.shell(("cd '%s' && git ls-files 2>/dev/null"):format(tree.root))
    if status ~= 0 then pending "the tree is not a git checkout" return end
    local known, wrong = {}, {}
    for name in ([[.ci .clang-format .clang-tidy .editorconfig .gitignore .luacheckrc ACCURACY.md CHANGELOG.md
      CMakeLists.txt Containerfile NOTICE README.md clusters cmake ett-scm-1.rockspec examples lua operators runtime
      samplers setup.sh spec]]):gmatch "%S+" do known[name] = true end
    for path in list:gmatch "[^\n]+" do
      if not known[path:match "^[^/]+"] then wrong[#wrong + 1] = path end
    end
    assert_none(wrong)
  end)

  it("has at most 20 files in a room", function() assert_none(structure.crowded_rooms(20)) end)
  it("has no function of more than 80 lines", function() assert_none(structure.long_functions(80)) end)
  it("names only files and modules that are there", function() assert_none(structure.missing_names()) end)

  it("finds cycles and long sentences", function()
    local graph = { a = { uses = { b = true } }, b = { uses = { c = true } }, c = { uses = { a = true } },
      d = { uses = { a = true } } }
    assert.same({ "a <-> b <-> c" }, structure.cycles(graph))
    local count, long = structure.long_sentences("One two three. " .. ("word "):rep(26) .. "end.", 25)
    assert.equal(2, count)
    assert.equal(1, #long)
  end)
end)

describe("the C core", function()
  it("knows no Lua outside runtime/bind and the host", function()
    local found = {}
    for _, path in ipairs(tree.files "^runtime/.*%.[ch]$") do
      local host_file = path:match("^runtime/host/") or path:match("^runtime/bind/")
      if not host_file and tree.read(path):match("#include%s*[<\"]l?u?a?u?x?l?i?b?[^>\"]*lua%.h") then
        found[#found + 1] = path
      end
    end
    assert_none(found)
  end)

  it("neither prints nor exits", function()
    local found = {}
    for _, path in ipairs(tree.files "^runtime/.*%.c$") do
      if not path:match("^runtime/host/") then
        local code = code_of(tree.read(path))
        for _, name in ipairs { "printf", "puts", "putchar", "perror", "exit", "abort" } do
          local there = code:find(name, 1, true) -- far quicker than the pattern
          if there and code:match("[^%w_]" .. name .. "%s*%(") then found[#found + 1] = path .. ": " .. name end
        end
      end
    end
    assert_none(found)
  end)
end)

describe("the library", function()
  it("prints only from commands, scripts and the prompt", function()
    local found = {}
    for _, path in ipairs(tree.files "^lua/.*%.lua$") do
      if not path:match("^lua/ett/cli/") then
        local code = tree.read(path)
        local there = code:find("print", 1, true) or code:find("io.write", 1, true) or code:find("os.exit", 1, true)
        code = there and code:gsub("%-%-%[%[.-%]%]", ""):gsub("%-%-[^\n]*", ""):gsub("%[%[.-%]%]", "") or ""
        if code:match("[^%w_.:]print%s*%(") or code:match("io%.write%s*%(") or code:match("os%.exit") then
          found[#found + 1] = path
        end
      end
    end
    assert_none(found)
  end)

  it("names every module in the README of its folder", function()
    local one_file_each = { ["lua/ett/metrics"] = true, ["lua/ett/cli/commands"] = true,
      ["lua/ett/trace/communication"] = true }
    local unnamed = {}
    for _, path in ipairs(tree.files "^lua/ett/.*%.lua$") do
      local folder, name = path:match("^(lua/ett.*)/([^/]+)%.lua$")
      local listed = name ~= "init" and not one_file_each[folder]
      local text = listed and tree.read(folder .. "/README.md")
      if listed and not (text:find("`ett." .. name .. "`", 1, true) or text:find("`" .. name .. "`", 1, true)
        or text:find("`" .. name .. ".lua`", 1, true)) then
        unnamed[#unnamed + 1] = path
      end
    end
    assert_none(unnamed)
  end)
end)

describe("environment variables", function()
  it("that users set are in lua/ett/cli/README.md", function()
    local page, unnamed = tree.read "lua/ett/cli/README.md", {}
    local of_others = { "^HOME$", "^NCCL_", "^OMPI_", "^OPENBLAS_", "^PMIX?_", "^SLURM_" } -- launchers and libraries
    for _, path in ipairs(tree.files "^[lrs][^p].*%.%l+$") do
      for name in tree.read(path):gmatch "%f[%w_]getenv[ (]*[\"']([%w_]+)" do
        local known = page:find("`" .. name .. "`", 1, true) ~= nil
        for _, pattern in ipairs(of_others) do known = known or name:find(pattern) ~= nil end
        if not known then unnamed[#unnamed + 1] = path .. ": " .. name end
      end
    end
    assert_none(unnamed)
  end)
end)

describe("folders", function()
  -- Test data, and folders that one file describes for all its siblings.
  local exempt = { "^spec/fuzz/corpus/.", "^clusters/.+/" }
  it("have a README each", function()
    local there, missing = {}, {}
    for _, path in ipairs(tree.files()) do
      local folder = path:match("^(.*)/[^/]*$")
      if folder then there[folder] = there[folder] or path:match("/README%.md$") ~= nil end
    end
    for folder, has in pairs(there) do
      for _, pattern in ipairs(exempt) do has = has or folder:match(pattern) ~= nil end
      if not has and not io.open(tree.root .. "/" .. folder .. "/README.md") then missing[#missing + 1] = folder end
    end
    table.sort(missing)
    assert_none(missing)
  end)
end)

describe("English", function()
  it("is measured by sentences; cells, list items and options are their own", function()
    local words = ("word "):rep(13)
    local function long(text) return select(2, structure.long_sentences(text, 25)) end
    assert.equal(1, #long(words .. words .. ".\n"))
    assert.equal(1, #long(words .. "\n20 ms " .. words .. ".\n")) -- a line that begins with a number is no item
    for _, text in ipairs { words .. ".\n" .. words .. ".", "| " .. words .. " | " .. words .. " |",
      "- " .. words .. "\n- " .. words, "1. " .. words .. "\n2. " .. words,
      "  --first N   " .. words .. "\n  --second N  " .. words, words .. "\n\n```\n" .. words .. "\n```\n" } do
      assert.same({}, long(text))
    end
  end)

  it("has none of these phrases in READMEs, messages and comments of the product", function()
    local phrases = { "of itself", "%f[%w]is had%f[%W]", "%f[%w]are had%f[%W]", "told of", "is asked for",
      "are asked for", "it is said", "no say in", "of one's own", "comes and goes", "set aside", "read off", "held at",
      "what binds", "is told", "cannot be told" }
    local found = {}
    for _, path in ipairs(tree.files "%.%w+$") do
      if path:match("%.[lchm][ud]?a?$") and not path:match("coefficients") and not path:match("^spec/") then
        local text = tree.read(path)
        for _, phrase in ipairs(phrases) do
          local plain = phrase:gsub("%%f%[.-%]", "")
          if text:find(plain, 1, true) and text:find(phrase) then
            found[#found + 1] = path .. ": " .. text:match("[^\n]*" .. phrase .. "[^\n]*")
          end
        end
      end
    end
    assert_none(found)
  end)

  it("has few sentences over 25 words in READMEs", function()
    local count, found = 0, {}
    for _, path in ipairs(tree.files "README%.md$") do
      local n, long = structure.long_sentences(tree.read(path), 25)
      count = count + n
      for _, sentence in ipairs(long) do found[#found + 1] = path .. ": " .. sentence end
    end
    assert.is_true(#found <= 0.01 * count, table.concat(found, "\n"))
  end)
end)
