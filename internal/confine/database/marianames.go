package database

import "sync"

// mariaFunctions are the functions of MariaDB that only compute. One that is not listed is
// refused, such as those that read files, lock, sleep, number rows, show other sessions, and
// all of the database's own. MariaDB finds a function of its own before one of the database.
var mariaFunctions = sync.OnceValue(func() map[string]bool {
	return words(`abs acos adddate addtime ascii asin atan atan2 avg bin bit_and bit_count bit_length bit_or bit_xor cast ceil ceiling char char_length
		character_length chr coalesce coercibility concat concat_ws conv convert cos cot count crc32 cume_dist curdate current_date current_time
		current_timestamp curtime date date_add date_format date_sub datediff day dayname dayofmonth dayofweek dayofyear degrees dense_rank elt exp
		export_set extract field find_in_set first_value floor format from_base64 from_days from_unixtime get_format greatest group_concat hex hour
		if ifnull insert instr isnull json_array json_array_append json_array_insert json_arrayagg json_contains json_contains_path json_depth
		json_exists json_extract json_insert json_keys json_length json_merge_patch json_merge_preserve json_object json_objectagg json_query json_quote
		json_remove json_replace json_search json_set json_type json_unquote json_valid json_value lag last_day last_value lcase lead least left length
		ln localtime localtimestamp locate log log10 log2 lower lpad ltrim makedate maketime max md5 median microsecond mid min minute mod month
		monthname now nth_value ntile nullif oct octet_length ord percent_rank period_add period_diff pi position pow power quarter quote radians
		rand rank regexp_instr regexp_replace regexp_substr repeat replace reverse right round row_number rpad rtrim sec_to_time second sha sha1
		sha2 sign sin space sqrt std stddev stddev_pop stddev_samp str_to_date strcmp subdate substr substring substring_index subtime sum
		sysdate tan time time_format time_to_sec timediff timestamp timestampadd timestampdiff to_base64 to_days to_seconds trim truncate ucase
		unhex unix_timestamp upper utc_date utc_time utc_timestamp uuid values var_pop var_samp variance week weekday weekofyear weight_string
		year yearweek`)
})

// mariaBefore are the keywords that a parenthesis may follow without a call.
var mariaBefore = sync.OnceValue(func() map[string]bool {
	return words(`select from where and or xor not in on using values value as join having by over exists any some all when then else case like
		regexp rlike between div mod interval union except intersect distinct limit returning index key match is set binary
		char decimal numeric varchar datetime time timestamp float double signed unsigned row inner left right cross outer straight_join
		sounds separator offset`)
})

// mariaSubquery are the words that a subquery may follow.
var mariaSubquery = sync.OnceValue(func() map[string]bool {
	return words(`from join straight_join in exists any some all as select where and or xor not on having by when then else case between like regexp
		rlike div mod is limit returning`)
})

// mariaReserved are reserved words that order a statement: without backquotes they are no names.
var mariaReserved = sync.OnceValue(func() map[string]bool {
	return words(`all and as asc between by case cross delete desc distinct distinctrow else except exists for from group having high_priority in inner
		insert intersect into is join key left like limit lock natural not null on or order outer over partition procedure regexp replace returning
		right rlike select set straight_join table then union update using values when where with xor recursive
		sql_small_result sql_big_result sql_calc_found_rows unique`)
})

// mariaRefused are the words of statements that do more than query and change rows, that do
// not name what they use, or that show the account.
var mariaRefused = sync.OnceValue(func() map[string]bool {
	return words(`procedure outfile dumpfile natural delayed system_time history portion lock table load handler call execute prepare nextval lastval setval
		current_user current_role`)
})

// mariaStar are the words after which * stands for columns.
var mariaStar = sync.OnceValue(func() map[string]bool {
	return words(`select all distinct distinctrow unique high_priority straight_join sql_small_result sql_big_result sql_buffer_result sql_cache sql_no_cache
		sql_calc_found_rows returning`)
})

// mariaIntroducer are the words that may touch a text.
var mariaIntroducer = sync.OnceValue(func() map[string]bool {
	return words(`_utf8mb4 _utf8mb3 _utf8 _binary _latin1 _ascii x b n select and or not like in then else when as by between regexp rlike escape separator
		date time timestamp interval values on where having limit returning`)
})
