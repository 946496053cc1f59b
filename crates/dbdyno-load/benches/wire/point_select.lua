-- The statement that all programs of this benchmark run, for sysbench: prepared once on each connection, then executed
-- with rows drawn evenly.

local rows = 100000
local statement, row

function thread_init()
   local connection = sysbench.sql.driver():connect()
   statement = connection:prepare("SELECT counter, filler FROM t1 WHERE id = ?")
   row = statement:bind_create(sysbench.sql.type.BIGINT)
   statement:bind_param(row)
end

function event()
   row:set(sysbench.rand.uniform(1, rows))
   statement:execute()
end
