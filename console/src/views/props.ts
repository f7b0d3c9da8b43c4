// What every view of a session is given.
import type { Place } from "../route";
import type { SessionData } from "../session";

export interface ViewProps {
  place: Place;
  data: SessionData;
}
