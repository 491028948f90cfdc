local completion = require "ett.cli.completion"
local repl = require "ett.cli.repl"

it("completion of the library as one table offers its modules and their fields", function()
  assert.same({ "estimate" }, (completion.names("ett.estim", {})))
  assert.same({ "new" }, (completion.names("ett.model.ne", {})))
end)

describe("ett.completion", function()
  local env = repl.environment()
  env.plan = setmetatable({ pp = 1, ppp = 2, tp = 3 }, { __index = { predict = print, page = 4 } })

  for text, wanted in pairs {
    ["pla"] = "plan", ["plan."] = "page pp ppp predict tp", ["plan.p"] = "page pp ppp predict",
    ["plan:p"] = "predict",
    ["x = plan.pp"] = "pp ppp", ["whi"] = "while", ["string.for"] = "format", ["nosuch."] = "", ["plan.pp."] = "",
    ['require "ett.jso'] = "ett.json", ["json.dec"] = "decode",
  } do
    it(text, function() assert.equal(wanted, table.concat((completion.names(text, env)), " ")) end)
  end

  it("inserts what all have in common, and shows a choice", function()
    assert.same({ "n" }, { completion.complete("pla", env) })
    assert.same({ nil, "pp  ppp" }, { completion.complete("plan.pp", env) })
    assert.same({}, { completion.complete("", env) })
  end)

  it("does not call the values that it reads", function()
    env.trap = setmetatable({}, { __index = function() error "called" end, __pairs = function() error "called" end })
    assert.same({}, (completion.names("trap.x", env)))
  end)
end)
