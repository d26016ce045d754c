package database

import (
	"strings"
	"sync"
)

// pgNodes are the nodes of queries that Remit knows, by the names of all versions. Each is
// safe when the tables, functions and operators that it names are.
var pgNodes = sync.OnceValue(func() map[string]bool {
	return words(`QUERY RTE RANGETBLENTRY RTEPERMISSIONINFO PERMISSIONINFO ALIAS FROMEXPR JOINEXPR RANGETBLREF RANGETBLFUNCTION TARGETENTRY
		VAR CONST PARAM FUNCEXPR NAMEDARGEXPR OPEXPR DISTINCTEXPR NULLIFEXPR SCALARARRAYOPEXPR BOOLEXPR SUBLINK FIELDSELECT FIELDSTORE
		RELABELTYPE COERCEVIAIO ARRAYCOERCEEXPR CONVERTROWTYPEEXPR COLLATE COLLATEEXPR CASE CASEEXPR WHEN CASEWHEN CASETESTEXPR
		ARRAY ARRAYEXPR ROW ROWEXPR ROWCOMPARE ROWCOMPAREEXPR COALESCE COALESCEEXPR MINMAX MINMAXEXPR SQLVALUEFUNCTION NULLTEST BOOLEANTEST
		COERCETODOMAIN COERCETODOMAINVALUE SETTODEFAULT NEXTVALUEEXPR AGGREF GROUPINGFUNC WINDOWFUNC WINDOWCLAUSE SORTGROUPCLAUSE
		GROUPINGSET ROWMARKCLAUSE WITHCHECKOPTION COMMONTABLEEXPR CTESEARCHCLAUSE CTECYCLECLAUSE SETOPERATIONSTMT ONCONFLICTEXPR
		INFERENCEELEM SUBSCRIPTINGREF RETURNINGEXPR`)
})

// pgFunctions are the functions of PostgreSQL that only compute. One that is not listed is
// refused, such as those that read files, settings or other tables, run a text as SQL,
// open connections, lock, sleep or number rows.
var pgFunctions = sync.OnceValue(func() map[string]bool {
	return words(`abs age array_append array_cat array_dims array_fill array_length array_lower array_ndims array_position array_positions array_prepend
		array_remove array_replace array_to_json array_to_string array_upper ascii bit_count bit_length bool boolean bpchar btrim cardinality cbrt ceil
		ceiling char character_length char_length chr clock_timestamp concat concat_ws convert_from convert_to cos cot date date_bin date_part date_trunc decode
		degrees div encode exp extract factorial float4 float8 floor format gcd gen_random_uuid generate_series generate_subscripts get_bit
		get_byte host initcap int2 int4 int8 interval isempty isfinite json_array_elements json_array_elements_text json_array_length json_build_array
		json_build_object json_each json_each_text json_extract_path json_extract_path_text json_object json_object_keys json_strip_nulls
		json_typeof json_to_record json_to_recordset jsonb_array_elements jsonb_array_elements_text jsonb_array_length jsonb_build_array
		jsonb_build_object jsonb_each jsonb_each_text jsonb_extract_path jsonb_extract_path_text jsonb_insert jsonb_object jsonb_object_keys
		jsonb_path_exists jsonb_path_match jsonb_path_query jsonb_path_query_array jsonb_path_query_first jsonb_pretty jsonb_set
		jsonb_strip_nulls jsonb_to_record jsonb_to_recordset jsonb_typeof justify_days justify_hours justify_interval lcm left length
		like like_escape ln log log10 lower lower_inc lower_inf lpad ltrim make_date make_interval make_time make_timestamp make_timestamptz masklen
		md5 min_scale mod multirange name network normalize notlike now num_nonnulls num_nulls numeric numnode octet_length overlaps overlay
		parse_ident phraseto_tsquery pi plainto_tsquery position power pow quote_ident quote_literal quote_nullable radians random
		range_merge regexp_count regexp_instr regexp_like regexp_match regexp_matches regexp_replace regexp_split_to_array
		regexp_split_to_table regexp_substr repeat replace reverse right round row_to_json rpad rtrim scale sha224 sha256 sha384 sha512 sign
		similar_escape similar_to_escape sin split_part sqrt starts_with statement_timestamp string_to_array string_to_table strip strpos substr
		substring tan text time timestamp timestamptz timetz timezone to_char to_date to_hex to_json to_jsonb to_number to_timestamp
		to_tsquery to_tsvector transaction_timestamp translate trim trim_array trim_scale trunc ts_headline ts_rank ts_rank_cd unistr unnest
		upper upper_inc upper_inf varchar websearch_to_tsquery width_bucket int4range int8range numrange daterange tsrange tstzrange bytea uuid
		json jsonb jsonb_concat bit varbit inet cidr`)
})

func words(text string) map[string]bool {
	out := map[string]bool{}
	for _, w := range strings.Fields(text) {
		out[w] = true
	}
	return out
}
